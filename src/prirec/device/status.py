"""How a device stands, for its person: what it keeps, where it belongs, what it can do."""

from dataclasses import dataclass

from prirec.device.learning import visited_places
from prirec.device.person import Person
from prirec.device.records import records_of
from prirec.device.view import View
from prirec.errors import PrirecError


@dataclass(frozen=True, slots=True)
class Belonging:
    """Public, but for that it is this person's device."""

    title: str
    url: str
    recommender: str  # its key, as it was pinned, in hexadecimal
    enrolled: bool
    tells_a_cell: bool
    entries: int  # of the log, checked
    campaign: int | None
    takes_part: bool  # whether the campaign lists this device
    learnt: int  # rounds of the campaign that are in this device's model
    rounds: int  # that the campaign has
    places: int  # downloaded, of the catalogue
    can_recommend: bool
    unusable: str  # why nothing can be learnt from the person's data as they are; empty: something can


@dataclass(frozen=True, slots=True)
class Status:
    """Counts, and nothing that they count."""

    visits: int
    described_by: tuple[str, ...]  # names of what the person told
    home: bool  # whether one was told
    belonging: Belonging | None


def status(person: Person) -> Status:
    belongs = None if person.membership() is None else _belonging(View.of(person))
    return Status(len(person.visits()), tuple(person.profile()), person.home() is not None, belongs)


def _belonging(view: View) -> Belonging:
    member, campaign = view.member, view.campaign
    kept = None if campaign is None else view.shelf.person.model(campaign.name)
    return Belonging(
        title=member.title,
        url=member.url,
        recommender=member.recommender.hex(),
        enrolled=member.enrolled,
        tells_a_cell=member.cell != 0,
        entries=member.head.length,
        campaign=None if campaign is None else campaign.charter.campaign,
        takes_part=view.position is not None,
        learnt=0 if kept is None else kept.iteration,
        rounds=0 if campaign is None else campaign.settings.iterations,
        places=0 if campaign is None else len(view.known),
        can_recommend="publication" in view.standing,
        unusable=_unusable(view),
    )


def _unusable(view: View) -> str:
    """Whoever takes part regardless adds zeros, at the full price (contributing.py): nobody else is told, so the person
    is told here."""
    person, campaign = view.shelf.person, view.campaign
    if campaign is None:
        return ""
    try:
        visited_places(person, campaign, view.known)
        if campaign.edition is not None:
            records_of(person, campaign, view.known)
    except PrirecError as problem:
        return str(problem)
    except Exception as problem:
        return f"an unforeseen fault, {type(problem).__name__}"  # its words could repeat a value
    return ""
