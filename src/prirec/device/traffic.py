"""What a device sent for sums, field by field: read from its ledger, its journal and the campaign, offline.

A report is erased once the recommender has it, since nobody needs it again; what stays is the charge and how far the
round came. How long each field is follows from the campaign alone, and is the same for every device. What a field is
and who learns it stands in who_learns_what.json, which `make docs` writes from docs/who_learns_what.py.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, cast, get_args

import msgspec

from prirec.device.ledger import LedgerStore
from prirec.device.store import Store
from prirec.device.sync import View
from prirec.errors import PrirecError
from prirec.privacy.accountant import GRAINS
from prirec.privacy.ledger import Charge
from prirec.protocols.codec import decode
from prirec.protocols.messages import Report, Round
from prirec.protocols.party import Stage
from prirec.protocols.terms import over_two_operators
from prirec.protocols.two_operators import leader_box_length
from prirec.wire.campaign import SPAN, Campaign
from prirec.wire.documents import SumKind

_FIXED = {"nonce": 16, "held": 32, "public": 128, "helper_box": 176, "signature": 64}  # of a report, in bytes
_JOINT = ("report",)
_MASKED = ("keys", "boxes", "receipt", "masked", "agreement", "reveal")  # of a sum with one operator, in their order
_STATES = {
    Stage.ENTERED: "begun: nothing of the person was sent",
    Stage.MASKED: "written down, and sent until it arrives",
    Stage.AGREED: "handed over, and erased here",
    Stage.REVEALED: "handed over",
    Stage.OPENED: "handed over, and the sum was opened",
    Stage.BURNT: "given up: it may have been sent",
}


@dataclass(frozen=True, slots=True)
class SentField:
    """A field of a message: how long it is, what it is, and, of a report that is still here, how it begins."""

    message: str
    name: str
    what: str
    bytes: int | None = None  # None: it depends on who else takes part
    begins: str = ""  # hexadecimal


@dataclass(frozen=True, slots=True)
class SentSum:
    """What a device sent for one sum."""

    what: str  # the sum is for
    kind: str
    number: int
    day: int  # since 1970
    mu2: float  # μ² that was charged: those of all sums add up
    state: str
    fields: tuple[SentField, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Learns:
    """Who learns what from a message."""

    message: str
    to_receiver: str
    to_relay: str
    hidden: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """All that a device sent for sums, and what it says to the recommender beside."""

    name: str | None  # the pseudonym; None: it is in no deployment
    operators: int
    sums: tuple[SentSum, ...]
    learns: tuple[Learns, ...]

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self)


def traffic_of(view: View | None, store: Store, paid: LedgerStore) -> Traffic:
    """What this device sent, as its file remembers it."""
    operators = 2 if view is not None and view.member.helper else 1
    campaign = None
    with suppress(PrirecError):  # a document is damaged: then lengths are not known
        campaign = None if view is None else view.campaign
    sums = []
    for entry in paid.ledger().entries:
        charge = entry.charge
        held = store.entry(Round(charge.deployment, charge.kind, charge.number))
        report = _report(b"" if held is None else held.payload)
        state = "charged" if held is None else _STATES[held.stage]
        of = campaign if campaign is not None and _is_of(charge, campaign) else None
        fields = _fields(charge.kind, of, report) if operators == 2 else _masked_fields()
        sums.append(
            SentSum(charge.what, charge.kind, charge.number, entry.day, charge.cost.grains / GRAINS, state, fields)
        )
    messages = _JOINT if operators == 2 else _MASKED
    learns = [Learns(name, *(said(name)[to] for to in ("to_receiver", "to_relay", "hidden"))) for name in messages]
    return Traffic(None if view is None else view.member.name.hex(), operators, tuple(sums), tuple(learns))


def _is_of(charge: Charge, campaign: Campaign) -> bool:
    """Whether it was for a sum of this campaign: another one's vectors may have been longer."""
    same = charge.deployment == campaign.charter.deployment
    return same and 0 <= campaign.iteration(charge.number) < SPAN


def _fields(kind: str, campaign: Campaign | None, report: Report | None) -> tuple[SentField, ...]:
    lengths: dict[str, int] = dict(_FIXED)
    if campaign is not None and campaign.charter.helper and kind in get_args(SumKind):
        code, length = campaign.code(cast(SumKind, kind))
        terms = over_two_operators(code, length=length, floor=campaign.settings.floor)
        lengths["leader_box"] = leader_box_length(terms)
    return tuple(
        SentField("report", name, what, lengths.get(name), _begin(report, name))
        for name, what in said("report")["fields"].items()
    )


def _begin(report: Report | None, name: str) -> str:
    value = getattr(report, name, b"")
    return value[:8].hex() if isinstance(value, bytes) else ""


def _masked_fields() -> tuple[SentField, ...]:
    return tuple(
        SentField(message, name, what) for message in _MASKED for name, what in said(message)["fields"].items()
    )


def _report(payload: bytes) -> Report | None:
    with suppress(PrirecError):
        found = decode(payload)
        return found if isinstance(found, Report) else None
    return None


@cache
def _said() -> Mapping[str, Any]:
    text = files("prirec.device").joinpath("who_learns_what.json").read_bytes()
    return {one["name"]: one for one in msgspec.json.decode(text)["messages"]}


def said(message: str) -> Mapping[str, Any]:
    """What a message tells, and to whom."""
    found: Mapping[str, Any] = _said()[message]
    return found
