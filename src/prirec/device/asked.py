"""What the deployment's devices use of a person, once a campaign has told: to find slips while the person is there to
mend them. Nobody is told what was asked here."""

from collections.abc import Mapping, Sequence

from prirec.contract.catalogue import Known
from prirec.device.person import Person
from prirec.device.values import Given, checked_value
from prirec.device.view import View
from prirec.device.visits import Visit
from prirec.features.encoding import Encoding
from prirec.features.told import columns_of


def encoding_of(person: Person) -> Encoding | None:
    """None while nothing is known of a campaign."""
    campaign = None if person.membership() is None else View.of(person).campaign
    return None if campaign is None else campaign.encoding


def places_of(person: Person) -> Known | None:
    """The places that this device has downloaded; None before it has any."""
    if person.membership() is None:
        return None
    view = View.of(person)
    return None if view.campaign is None else view.known


def refuse_unfit(person: Person, values: Mapping[str, Given | None]) -> None:
    """DataError, with a column and without its value, for words where numbers belong, or the reverse."""
    if (encoding := encoding_of(person)) is not None:
        told = {name: checked_value(value, column=name) for name, value in values.items() if value is not None}
        columns_of(encoding.person, [told])


def refuse_unfit_visits(person: Person, visits: Sequence[Visit]) -> None:
    """The same for what describes moments."""
    if (encoding := encoding_of(person)) is not None:
        columns_of(encoding.context, [visit.context for visit in visits])


def unknown_places(person: Person, visits: Sequence[Visit]) -> int:
    """How many visits are to places that this device does not have: nothing is learnt from those."""
    known = places_of(person)
    return 0 if known is None else int((known.positions(visit.place for visit in visits) < 0).sum())
