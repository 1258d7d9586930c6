"""A device in the sums of a campaign: its contribution, the price, and what must be on disk before it sends.

What a round computes is defined in prirec/rounds; the letters are those of docs/how-it-works.md. Every contribution
leaves this file in whole numbers and no longer than its norm; protocols/secure_sum.py masks it and adds the share of
noise.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from os import urandom
from typing import TypeVar

import numpy as np

from prirec.device.ledger import LedgerStore, Price, load_floor
from prirec.device.person import Person
from prirec.device.records import (
    Records,
    learnt_records,
    parted_visits,
    reason,
    recorded_values,
    visited_positions,
)
from prirec.device.store import VisitContribution, save_visit_contribution, save_zeros
from prirec.device.sync import View
from prirec.errors import Fault, PeerError, PolicyError, PrirecError
from prirec.features.popularity import OwnCounts, Scale, average_column, own_means
from prirec.privacy.accountant import Spent
from prirec.privacy.norm import Norm, clipped
from prirec.privacy.plan import popularity_entries
from prirec.privacy.weighted_popularity import stacked, weighted
from prirec.protocols import secure_sum, terms
from prirec.protocols.codec import decode, encode, ring_zeros
from prirec.protocols.messages import Invitation, Round, Terms
from prirec.protocols.party import Aborted, Action, Persist, Send, Stage
from prirec.protocols.roster import Task, fewest_survivors
from prirec.protocols.secure_sum import Member
from prirec.sharing.keys import SigningKey
from prirec.types import RealArray, RingArray
from prirec.wire.campaign import Campaign
from prirec.wire.http import MOST_ATTEMPTS
from prirec.wire.regions import KnownPlaces


def visited_places(person: Person, campaign: Campaign, known: KnownPlaces) -> VisitContribution:
    """The places that the person has visited, each once, without those held out, and the person's own means of what is
    averaged over visits, as one vector of norm 1 in whole numbers.

    simulate/popularity.py computes the same for all people of a simulated city."""
    learnt, _ = parted_visits(person, share=campaign.charter.settings.held_out)
    many, averages = campaign.charter.places, campaign.encoding.averages
    places = known.rows[visited_positions(learnt, known)].astype(np.int64)
    parts = {"visitors": OwnCounts(many, places, np.ones(len(places)))}
    if averages:
        values = recorded_values(learnt, averages, known)
        parts |= {  # a column may be called as the places are
            average_column(one.column): own_means(values, one.column, Scale(one.low, one.high), places=many)
            for one in averages
        }
    mine = stacked(list(weighted(parts).values()))
    return VisitContribution(mine.pairs, clipped(mine.counts, campaign.visits.norm))


def visits_vector(visited: VisitContribution, campaign: Campaign) -> RingArray:
    """The contribution to the sum of visits: the places, then the places again for each average. `visited` is stored
    with it (device/store.py, save_visit_contribution): the device later leaves its own part out of what comes of the
    sum."""
    vector = np.zeros(popularity_entries(campaign.charter.places, campaign.settings), dtype=np.int64)
    vector[visited.entries] = visited.whole
    return vector.view(np.uint64)


def moments_vector(records: Records, campaign: Campaign) -> RingArray:
    """The contribution to the sum of moments: means and squares of the person's own columns, clipped."""
    rules = campaign.rules
    mine = rules.moment_contributions(records.person[None], records.context, records.label, records.offsets)
    return rules.codes.moments.write(mine[0])


def gradient_vector(records: Records, campaign: Campaign, B: RealArray) -> RingArray:
    """Step (b) of a round: the gradient of B on the person's own records, scaled and clipped."""
    own, rows = records.scaled(campaign.columns, campaign.scaling[0])
    return campaign.rules.contribution(own, rows, campaign.model(B))[0]


# Taking part has a public and a private half.
#
# Participation: which round it is and what it costs follow from the signed log alone, and are refused where that is
# wrong. Contribution: what is added follows from the person's records as well, and nothing about it may be visible to
# anybody. Whoever writes the documents could choose them so that some records fail, or take longer, and learn for free
# which ones a device has. So a device sends its keys before it reads a record, has its contribution computed by another
# process (device/worker.py) in a stretch of fixed length in which it sends nothing (device/agent.py), and where that
# fails, or takes longer, it adds zeros at the full price.


WHAT = {  # for the ledger and the agent's news
    "popularity": "how popular places are",
    "moments": "means and spreads of private columns",
    "interaction": "the shared model",
    "quality": "how good recommendations are",
}


def purpose(kind: str, campaign: Campaign | None) -> str:
    """What a kind of sum is for, in words."""
    what = WHAT.get(kind, kind)
    if kind != "popularity" or campaign is None or not campaign.encoding.averages:
        return what
    return f"{what}, and averages of {', '.join(one.column for one in campaign.encoding.averages)}"


_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Participation:
    """The public half of taking part in a sum: its terms, and its price."""

    task: Task
    what: str  # for the ledger, in words
    norm: Norm
    cost: Spent
    floor: int  # devices that the person wants in a sum, at least

    def price(self, size: int) -> Price:
        """In a roster of so many devices."""
        return Price(self.what, self.cost, terms.cost_at_worst(self.task.terms, size, norm=self.norm))


def participation(of: Round, view: View) -> Participation:
    """How this device takes part in a round that it was invited to. PeerError if the round is not the one that the
    device has worked out from its own log."""
    campaign = _current(of, view)
    if view.member.helper:
        raise PeerError(Fault.PARAMS_MISMATCH, "this device reports to two operators, and enters no sum of one")
    if not view.takes_part:
        raise PeerError(Fault.ORDER, "this device has no part in that campaign")
    task = _task(of, view, campaign)
    if task.round != of:
        raise PeerError(Fault.PARAMS_MISMATCH, "this device is invited to another round than its own")
    norm = campaign.norm(of.kind)
    with view.documents.person.store.reading() as rows:
        floor = load_floor(rows)
    task = campaign.among(task, frozenset(view.names), floor=_roster_for(floor, task.terms))
    return Participation(task, purpose(of.kind, campaign), norm, terms.privacy_cost(task.terms, norm=norm), floor)


def _task(of: Round, view: View, campaign: Campaign) -> Task:
    if of.kind == "popularity":
        return campaign.popularity(attempt=of.attempt)
    if of.kind == "moments":
        return campaign.moments(attempt=of.attempt)
    B = model_at(of, view, campaign)
    if B is None:
        raise PeerError(Fault.PARAMS_MISMATCH, "there is no such sum of one operator")
    return campaign.interaction(campaign.iteration(of.number), B=B, attempt=of.attempt)


def model_at(of: Round, view: View, campaign: Campaign) -> RealArray | None:
    """B that a sum of this kind is taken under, as the log has it: that of the round, or in the end the published one;
    None: under none."""
    if of.kind not in ("interaction", "quality"):
        return None
    model = view.model if of.kind == "interaction" else view.published_model
    if model is None:
        raise PeerError(Fault.ORDER, "there is no model to learn from yet")
    return campaign.shared(model)


def _roster_for(floor: int, of: Terms) -> int:
    """The smallest roster of which no fewer than `floor` devices may be left when the sum over them is opened. Asked
    for before this device masks: once it has, others may open the sum without it."""
    sizes = range(floor, 2 * floor + 1)  # fewer than half may be lost
    return floor + bisect_left(sizes, floor, key=lambda size: fewest_survivors(of, size))


@dataclass(frozen=True, slots=True)
class Contribution:
    """The private half: the vector for one sum, and what is stored on the device together with it."""

    campaign: bytes
    value: RingArray = field(repr=False)
    visited: VisitContribution | None = field(default=None, repr=False)
    empty: str | None = field(default=None, repr=False)  # why it is zeros; sent to nobody

    def settle(self, rows: sqlite3.Connection, of: Round) -> None:
        """Store what belongs to it, in the transaction in which it is masked."""
        if self.visited is not None:
            save_visit_contribution(rows, self.campaign, self.visited)
        if self.empty is not None:
            save_zeros(rows, of, why=self.empty)


def prepare(view: View) -> None:
    """Compute all contributions of a person without a record. A process compiles the kernels at their first use, or
    reads them from the disk, which can take longer than a contribution may; here it is known to everyone that it
    does."""
    campaign = view.campaign
    if campaign is None or campaign.edition is None:
        return
    encoding = campaign.encoding
    nobody = Records(
        person=np.zeros(encoding.width(encoding.person), dtype=np.float32),
        place=np.zeros(0, dtype=np.int32),
        context=np.zeros((0, campaign.columns.context), dtype=np.float32),
        label=np.zeros(0, dtype=np.int8),
        places=np.zeros((0, encoding.width(encoding.place)), dtype=np.float32),
        unknown=0,
    )
    if campaign.scales is None:
        moments_vector(nobody, campaign)
    elif view.learnt and view.published_model is not None:
        from prirec.device.quality import scored
        from prirec.device.recommend import learnt_from

        # under the model alone: which regions a device has is private
        model = campaign.model(campaign.shared(view.published_model))
        under = campaign.columns, campaign.scaling[0], model
        scored(nobody, *under, learnt_from(nobody, *under))
    elif view.model is not None:
        gradient_vector(nobody, campaign, campaign.shared(view.model))


def contributions_at(view: View, person: Person, rounds: Iterable[Round]) -> dict[Round, Contribution]:
    """The contributions to these rounds, without those that failed for whatever reason."""
    made = dict[Round, Contribution]()
    for of in rounds:
        with suppress(Exception):
            made[of] = contribution(of, view, person)
    return made


def contribution(of: Round, view: View, person: Person) -> Contribution:
    """What this device adds to a round that it takes part in."""
    campaign = _current(of, view)
    if of.kind == "popularity":
        return _visits(view, campaign, person)
    code, length = campaign.code(of.kind)  # type: ignore[arg-type]  # a current round is of a kind of sum
    zeros: RingArray = np.zeros(length, dtype=code.ring.dtype)
    B, final = model_at(of, view, campaign), view.published_model

    def work() -> RingArray:
        if of.kind == "quality" and final is not None:
            from prirec.device.quality import quality_vector  # only here: it loads what recommendations need

            return quality_vector(person, campaign, view.known, final)
        records = learnt_records(person, campaign, view.known)
        return moments_vector(records, campaign) if B is None else gradient_vector(records, campaign, B)

    value, why = _computed(work, instead=zeros)
    return Contribution(campaign.name, value, empty=why)


def _current(of: Round, view: View) -> Campaign:
    """The campaign, if this device's log is at this round of it."""
    if view.campaign is None or not is_current(of, view):
        raise PeerError(Fault.ORDER, "this device's log is not at the round that it is invited to")
    return view.campaign


def is_current(of: Round, view: View) -> bool:
    """Whether this device's log is at exactly this round, and the charter has it."""
    campaign = view.campaign
    if campaign is None or view.over or not view.in_force:
        return False
    if of.deployment != view.member.deployment or of.attempt >= MOST_ATTEMPTS:
        return False
    here = of.kind, campaign.iteration(of.number)
    if campaign.edition is None:
        return here == ("popularity", 0)
    if campaign.scales is None:
        return here == ("moments", 0)
    if view.learnt:
        return here == ("quality", campaign.settings.iterations)
    t = campaign.settings.iterations if view.model is None else view.model.iteration
    return t < campaign.settings.iterations and here == ("interaction", t)


def _visits(view: View, campaign: Campaign, person: Person) -> Contribution:
    nowhere = VisitContribution(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    visited, why = _computed(lambda: visited_places(person, campaign, view.known), instead=nowhere)
    return Contribution(campaign.name, visits_vector(visited, campaign), visited=visited, empty=why)


def _computed(work: Callable[[], _Made], *, instead: _Made) -> tuple[_Made, str | None]:
    """What is computed from the person's records, or `instead` of it and the reason. Every exception is caught: any
    kind of failure would say something about the records. What is wrong in public documents was refused before."""
    try:
        return work(), None
    except Exception as problem:
        return instead, reason(problem)


# Which sums a device enters, and what must be on disk before a message is sent.
#
# It enters a round when it is invited to exactly the one that it has worked out by itself from the signed log, and its
# ledger covers the price. The journal's entry MASKED, the charge, and what was added to the sum of visits are one
# transaction: after a crash all of it has happened, or nothing.
# Whether it enters, what it sends and when it sends it never depend on the person's records (see above).
# Keys are in memory only. A process that starts again posts what was masked before, bit for bit, and enters no round a
# second time. A round that the log has left behind is over: nothing more is masked, paid for or posted for it.


# at once: an honest recommender has one, and each one holds keys and a vector in memory
MOST_ROUNDS = 4
NOT_IN_TIME = "this device's part in a sum could not be computed, or not in time; it adds zeros"


def still_current(messages: Iterable[bytes], view: View) -> list[bytes]:
    """Those of these messages whose round the log has not left behind. A vector that was masked under another version
    of the protocols is not among them: nobody reads it any more."""
    current = []
    for body in messages:
        with suppress(PeerError):
            if is_current(decode(body).round, view):
                current.append(body)
    return current


@dataclass(slots=True)
class _Entered:
    """A round that this process has entered."""

    member: Member
    participation: Participation
    contribution: Contribution  # zeros until it is computed


class Rounds:
    """The rounds that a device is in. Fed with messages from the mailbox, it returns those to post. `day` is today, in
    days since 1970.

    It computes nothing from records by itself: whoever drives it computes the contributions of `waiting` rounds when
    their keys are posted, and hands them over with `supply`."""

    def __init__(
        self, person: Person, paid: LedgerStore, *, identity: SigningKey, day: Callable[[], int],
        entropy: Callable[[int], bytes] = urandom,
    ) -> None:  # fmt: skip
        self._person, self._paid, self._identity, self._day, self._entropy = person, paid, identity, day, entropy
        self._entered: dict[Round, _Entered] = {}
        self.waiting: list[Round] = []  # rounds whose contribution is to be computed
        self.declined: PrirecError | None = None  # why the last round was not entered, or given up
        self.empty: str | None = None  # why this device added nothing but zeros to a round, the last time

    def receive(self, body: bytes, view: View) -> list[bytes]:
        """Process a message, and return the answers. What does not belong to a round of this device is ignored."""
        try:
            message = decode(body)
            if isinstance(message, Invitation):
                self._enter(message.round, view)
            if message.round not in self._entered:
                return []
            return self._do(message.round, self._entered[message.round].member.receive(message))
        except PrirecError as refusal:
            self.declined = refusal
            return []

    def supply(self, of: Round, made: Contribution | None) -> None:
        """The contribution to a round that waits for it; None if it was not computed in time."""
        self.waiting.remove(of)
        self.empty = (NOT_IN_TIME if made is None else made.empty) or self.empty
        if made is not None and of in self._entered:
            self._entered[of].member.supply(made.value)
            self._entered[of].contribution = made

    def pending_messages(self, view: View) -> list[bytes]:
        """Masked vectors that an earlier process journalled and may not have posted: they are posted again, bit for
        bit."""
        return still_current(self._person.store.pending(), view)

    def forget_past(self, view: View) -> None:
        """When the log has gone on: drops the keys of rounds that are over, and vectors that were masked for them. They
        were delivered, or never will be."""
        for of in [of for of in self._entered if not is_current(of, view)]:
            del self._entered[of]
        self.waiting = [of for of in self.waiting if is_current(of, view)]
        for of in self._person.store.pending_rounds():
            if not is_current(of, view):
                self._paid.write(Persist(of, Stage.BURNT, bytes(32)), day=self._day())

    def _enter(self, of: Round, view: View) -> None:
        """Makes a party for the round, unless there was one before. PolicyError if the ledger does not cover the price,
        or too few devices could be in it."""
        held = self._person.store.entry(of)
        if of in self._entered or (held is not None and held.round == of):
            return
        mine = participation(of, view)
        self._check(mine)
        if of not in self.waiting:
            self.waiting.append(of)
        entropy = self._entropy(secure_sum.ENTROPY)  # fresh keys: masks made of one key twice could be subtracted
        while len(self._entered) >= MOST_ROUNDS:
            self._entered.pop(next(iter(self._entered)))
        nothing = Contribution(b"", ring_zeros(mine.task.terms), empty=NOT_IN_TIME)
        member = Member(mine.task, identity=self._identity, value=nothing.value, entropy=entropy)
        self._entered[of] = _Entered(member, mine, nothing)

    def _check(self, mine: Participation) -> None:
        """PolicyError for a round that this device does not enter, though it could."""
        if self._paid.how_many_more(mine.cost, day=self._day()) < 1:
            raise PolicyError(f"this person's privacy budget does not cover another round for {mine.what}")
        if mine.task.allowed is not None and (most := len(mine.task.allowed)) < mine.task.fewest:
            raise PolicyError(
                f"this person takes part only in sums over at least {mine.floor} devices, and of the {most} here only "
                f"{fewest_survivors(mine.task.terms, most)} have to be left when this one is opened"
            )

    def _do(self, of: Round, actions: Iterable[Action]) -> list[bytes]:
        """Carries out what the party asked for, in its order: it persists before it sends."""
        messages = []
        for action in actions:
            match action:
                case Persist():
                    self._write(of, action)
                case Send():
                    messages.append(encode(action.message))
                case Aborted():
                    self.declined = action.error
                    self._entered.pop(of, None)
        return messages

    def _write(self, of: Round, persist: Persist) -> None:
        mine = self._entered[of]
        try:
            if persist.stage is Stage.MASKED:
                settle = None if self._has_masked(of) else partial(mine.contribution.settle, of=of)
                price = mine.participation.price(mine.member.size)
                self._paid.write(persist, day=self._day(), price=price, together=settle)
            else:
                self._paid.write(persist, day=self._day())
        except PrirecError:
            self._entered.pop(of, None)  # nothing of it is sent
            raise

    def _has_masked(self, of: Round) -> bool:
        """Whether the vector was masked before: then what belongs to it is stored, and must not be stored twice."""
        held = self._person.store.entry(of)
        return held is not None and held.round == of and held.masked
