"""A device in the sums of a campaign: what it adds to the sum of visits and in each round, what that costs, and what
must be on disk before a message is sent.

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
from prirec.device.records import Records, encode_records, reason, visited_positions
from prirec.device.store import LinearModel, VisitContribution, save_model, save_visit_contribution, save_zeros
from prirec.device.sync import View
from prirec.errors import Fault, PeerError, PolicyError, PrirecError, UsageError
from prirec.features.popularity import OwnCounts
from prirec.model.block_steps import mix_model
from prirec.model.local_step import DeviceRecords
from prirec.model.public_half import place_rows, public
from prirec.privacy.accountant import Spent
from prirec.privacy.norm import Norm, clipped
from prirec.privacy.plan import popularity_entries
from prirec.privacy.weighted_popularity import weighted
from prirec.protocols import secure_sum, terms
from prirec.protocols.codec import decode, encode, positions, ring_zeros
from prirec.protocols.messages import Invitation, Round, Terms
from prirec.protocols.party import Aborted, Action, Persist, Send, Stage
from prirec.protocols.roster import Task, fewest_survivors
from prirec.protocols.secure_sum import Member
from prirec.rounds.definition import first_linear
from prirec.sharing.keys import SigningKey
from prirec.types import RealArray, RingArray
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Model, array
from prirec.wire.http import MOST_ATTEMPTS, is_within
from prirec.wire.regions import KnownPlaces


@dataclass(frozen=True, slots=True)
class LocalUpdate:
    """What a device computes in a round: W_i after steps (c) and (d), and what it adds to the sum over everyone."""

    linear: RealArray = field(repr=False)  # (D + 1,)
    contribution: RingArray = field(repr=False)  # (K * D,)
    loss: float = field(repr=False)  # mean over the own records, before each step


def visited_places(person: Person, campaign: Campaign, known: KnownPlaces) -> VisitContribution:
    """The places that the person has visited, each once, as a vector of norm 1 in whole numbers.

    privacy/weighted_popularity.py computes the same for all people of a simulated city."""
    places = known.rows[visited_positions(person.visits(), known)].astype(np.int64)
    once = OwnCounts(campaign.charter.places, places, np.ones(len(places)))
    return VisitContribution(places, clipped(weighted({"visitors": once})["visitors"].counts, campaign.visits.norm))


def visits_vector(visited: VisitContribution, campaign: Campaign) -> RingArray:
    """(J,): the contribution to the sum of visits. `visited` is stored with it (device/store.py,
    save_visit_contribution): the device later leaves its own part out of the popularity that comes of the sum."""
    vector = np.zeros(popularity_entries(campaign.charter.places, campaign.settings), dtype=np.int64)
    vector[visited.places] = visited.whole
    return vector.view(np.uint64)


def initial_model(campaign: Campaign) -> RealArray:
    """W_i before the first round of a campaign: zero for everyone."""
    return first_linear(1, _features(campaign)).ravel()


def mixing_vector(campaign: Campaign, linear: RealArray, *, centre: RealArray) -> RingArray:
    """Step (b): clip(W_i - centre) in the ring; the centre is the mean that the cohort opened last."""
    _check(campaign, linear=linear, other=centre)
    return campaign.rounds.mixing_contribution(linear, centre)


def learn(
    records: Records, campaign: Campaign, *, linear: RealArray, interaction: RealArray, iteration: int,
    mean: RealArray | None = None,
) -> LocalUpdate:  # fmt: skip
    """Steps (c) to (e) of round t: mix with the cohort's mean, if it was opened in this round, then the local step.

    `linear` stays as it is: the new model counts once it is stored in one transaction with what was masked. Whoever
    adds nothing, since the budget is spent or for a newcomer, uses `LocalUpdate.linear` alone: nothing leaves the
    device, so it costs nothing, and what others have opened is public, and may be mixed in all the same."""
    _check(campaign, linear=linear, other=mean, interaction=interaction)
    if records.features != _features(campaign):
        raise UsageError("these records are encoded otherwise than the campaign calls for; make them anew")
    w = linear.copy()
    if mean is not None:
        mix_model(w, mean, records.gamma)  # (c)
    shared = public(interaction, records.places, first=records.own.person.size)
    gradient, lost = campaign.rounds.learn(w, shared, records.own, key=records.key, iteration=iteration)  # (d)
    if not np.isfinite(w).all():
        raise UsageError("the linear model has grown beyond all numbers; lower linear.alpha")
    return LocalUpdate(w, campaign.rounds.interaction.write(gradient), lost / max(len(records.own.place), 1))  # (e)


def _check(
    campaign: Campaign, *, linear: RealArray, other: RealArray | None, interaction: RealArray | None = None
) -> None:
    """UsageError for models of another size: kernels do not check the size of an array."""
    D, K = _features(campaign), campaign.settings.model.dimension
    wanted = [(linear, (D + 1,)), (other, (D + 1,)), (interaction, (D, K))]
    if any(one is not None and (one.shape != shape or one.dtype != np.float64) for one, shape in wanted):
        raise UsageError("a model has not the size that the campaign calls for")


def _features(campaign: Campaign) -> int:
    return len(campaign.encoding.names())


# Taking part has a public and a private half.
#
# Participation: which round it is and what it costs follow from the signed log alone, and are refused where that is
# wrong. Contribution: what is added follows from the person's records as well, and nothing about it may be visible to
# anybody. Whoever writes the documents could choose them so that some records fail, or take longer, and learn for free
# which ones a device has. So a device sends its keys before it reads a record, has its contribution computed by another
# process (device/worker.py) in a stretch of fixed length in which it sends nothing (device/agent.py), and where that
# fails, or takes longer, it adds zeros at the full price.


WHAT = {  # for the ledger and the agent's news, in words
    "popularity": "how popular places are",
    "linear": "mixing linear models in the neighbourhood",
    "interaction": "the feature interaction model V",
}

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
    campaign, model = _current(of, view), view.model
    if view.position is None:
        raise PeerError(Fault.ORDER, "this device has no part in that campaign")
    if model is None:
        task = campaign.popularity(attempt=of.attempt)
    elif of.kind == "linear":
        V, centre = _interaction(model, campaign), _centre(view)
        task = campaign.mixing(model.iteration, view.cohort or 0, V=V, centre=centre, attempt=of.attempt)
    else:
        V = _interaction(model, campaign)
        task = campaign.interaction(model.iteration, V=V, attempt=of.attempt)
    if task.round != of:
        raise PeerError(Fault.PARAMS_MISMATCH, "this device is invited to another round than its own")
    allowed, norm = view.allowed(of.kind), campaign.norm(of.kind)
    with view.documents.person.store.reading() as rows:
        floor = load_floor(rows)
    task = campaign.among(task, allowed, floor=_roster_for(floor, task.terms))
    return Participation(task, WHAT[of.kind], norm, terms.privacy_cost(task.terms, norm=norm), floor)


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
    model: LinearModel | None = field(default=None, repr=False)  # the moved W_i
    visited: VisitContribution | None = field(default=None, repr=False)
    empty: str | None = field(default=None, repr=False)  # why it is zeros; sent to nobody

    def settle(self, rows: sqlite3.Connection, of: Round) -> None:
        """Store what belongs to it, in the transaction in which it is masked."""
        if self.model is not None:
            save_model(rows, self.model)
        if self.visited is not None:
            save_visit_contribution(rows, self.campaign, self.visited)
        if self.empty is not None:
            save_zeros(rows, of, why=self.empty)

    def learn_locally(self, person: Person) -> None:
        """Where the budget does not cover the sum, store the local step all the same: nothing of it is sent."""
        if self.model is not None:
            with person.store.transaction() as rows:
                save_model(rows, self.model)


def prepare(view: View) -> None:
    """Run the local step on no record. A process compiles it at its first use, or reads it from the disk, which can
    take longer than a contribution may; here it is known to everyone that it does."""
    if view.campaign is None or view.model is None:
        return
    rules, (D, K) = view.campaign.rounds, _interaction(view.model, view.campaign).shape
    shared = public(np.zeros((D, K)), place_rows(np.zeros((1, 0), dtype=np.float32)), first=D)
    none = DeviceRecords(
        np.zeros(D, dtype=np.float32), np.zeros(0, np.int32), np.zeros((0, 0), np.float32), np.zeros(0, np.int8)
    )
    rules.learn(np.zeros(D + 1), shared, none, key=np.uint64(0), iteration=0)


def contributions_at(view: View, person: Person, rounds: Iterable[Round]) -> dict[Round, Contribution]:
    """The contributions to these rounds, without those that failed for whatever reason."""
    made = dict[Round, Contribution]()
    for of in rounds:
        with suppress(Exception):
            made[of] = contribution(of, view, person)
    return made


def contribution(of: Round, view: View, person: Person) -> Contribution:
    """What this device adds to a round that it takes part in."""
    campaign, model = _current(of, view), view.model
    if model is None:
        return _visits(view, campaign, person)
    return (_mixing if of.kind == "linear" else _learning)(view, campaign, model, person)


def _current(of: Round, view: View) -> Campaign:
    """The campaign, if this device's log is at this round of it."""
    if view.campaign is None or not is_current(of, view):
        raise PeerError(Fault.ORDER, "this device's log is not at the round that it is invited to")
    return view.campaign


def is_current(of: Round, view: View) -> bool:
    """Whether this device's log is at exactly this round, and the charter has it. The log's last model says which: its
    cohorts' sums, if the round mixes and they are not over, else the sum over everyone."""
    campaign, model = view.campaign, view.model
    if campaign is None or view.over or of.deployment != view.member.deployment or of.attempt >= MOST_ATTEMPTS:
        return False
    if model is None:
        return campaign.edition is None and (of.kind, campaign.iteration(of.number)) == ("popularity", 0)
    if model.iteration >= campaign.settings.iterations or not (model.mixed or campaign.rounds.mixes(model.iteration)):
        return False
    kind = "interaction" if model.mixed else "linear"
    return (of.kind, campaign.iteration(of.number)) == (kind, model.iteration)


def _visits(view: View, campaign: Campaign, person: Person) -> Contribution:
    nowhere = VisitContribution(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    visited, why = _computed(lambda: visited_places(person, campaign, view.known), instead=nowhere)
    return Contribution(campaign.name, visits_vector(visited, campaign), visited=visited, empty=why)


def _mixing(view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    centre = _centre(view)
    value, why = _computed(
        lambda: mixing_vector(campaign, _linear(person.model(campaign.name), campaign), centre=centre),
        instead=campaign.rounds.linear.ring.zeros(len(centre)),
    )
    return Contribution(campaign.name, value, empty=why)


def _learning(view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, t, held = _interaction(model, campaign), model.iteration, person.model(campaign.name)
    zeros = campaign.rounds.interaction.ring.zeros(V.size)
    if held is not None and held.iteration > t:  # an earlier attempt of this round was learnt from; once is enough
        return Contribution(campaign.name, zeros)
    opened = view.cohort in positions(model.opened, size=len(model.means))
    mean, linear = _centre(view) if opened else None, _linear(held, campaign)
    learnt, why = _computed(
        lambda: learn(
            encode_records(person, campaign, view.known), campaign, linear=linear, interaction=V, iteration=t, mean=mean
        ),
        instead=LocalUpdate(linear, zeros, 0.0),
    )
    mixed_in = (view.mean_name or b"") if opened and why is None else b""
    moved = LinearModel(campaign.name, t + 1, learnt.linear, mixed_in)
    return Contribution(campaign.name, learnt.contribution, moved, empty=why)


def _computed(work: Callable[[], _Made], *, instead: _Made) -> tuple[_Made, str | None]:
    """What is computed from the person's records, or `instead` of it and the reason. Every exception is caught: any
    kind of failure would say something about the records. What is wrong in public documents was refused before."""
    try:
        return work(), None
    except Exception as problem:
        return instead, reason(problem)


def _linear(held: LinearModel | None, campaign: Campaign) -> RealArray:
    """W_i as it was stored last; 0 before a campaign's first round."""
    return initial_model(campaign) if held is None else held.linear


def _interaction(model: Model, campaign: Campaign) -> RealArray:
    wide = len(campaign.encoding.names())
    return _bounded(array(model.interaction, np.float64, (wide, campaign.settings.model.dimension)))


def _centre(view: View) -> RealArray:
    if view.mean is None or view.campaign is None:
        raise PeerError(Fault.ORDER, "this device has no cohort in that campaign")
    return _bounded(array(view.mean.values, np.float64, (len(view.campaign.encoding.names()) + 1,)))


def _bounded(values: RealArray) -> RealArray:
    if not is_within(values):
        raise PeerError(Fault.PARAMS_MISMATCH, "a published model has entries that are no numbers, or beyond all use")
    return values


# Which sums a device enters, and what must be on disk before a message is sent.
#
# It enters a round when it is invited to exactly the one that it has worked out by itself from the signed log, and its
# ledger covers the price. The journal's entry MASKED, the charge, and what is stored on the device (the moved linear
# model, or what was added to the sum of visits) are one transaction: after a crash all of it has happened, or nothing.
# Whether it enters, what it sends and when it sends it never depend on the person's records (see above).
# Keys are in memory only. A process that starts again posts what was masked before, bit for bit, and enters no round a
# second time. A round that the log has left behind is over: nothing more is masked, paid for or posted for it.


# at once: an honest recommender never has more than two, and each one holds keys and a vector in memory
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
        self._alone: set[Round] = set()  # those of them that this device does not enter, and learns from by itself
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
        """The contribution to a round that waits for it; None if it was not computed in time. From a round that it does
        not enter the device learns for itself."""
        self.waiting.remove(of)
        self.empty = (NOT_IN_TIME if made is None else made.empty) or self.empty
        if made is None:
            return
        try:
            if of in self._entered:
                self._entered[of].member.supply(made.value)
                self._entered[of].contribution = made
            elif of in self._alone:
                made.learn_locally(self._person)
        except PrirecError as problem:  # the disk is full: nothing is learnt from this round
            self.empty = str(problem)

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
        self._alone.intersection_update(self.waiting)
        for of in self._person.store.pending_rounds():
            if not is_current(of, view):
                self._paid.write(Persist(of, Stage.BURNT, bytes(32)), day=self._day())

    def _enter(self, of: Round, view: View) -> None:
        """Makes a party for the round, unless there was one before. PolicyError if the ledger does not cover the price,
        or too few devices could be in it: then the device learns for itself."""
        held = self._person.store.entry(of)
        if of in self._entered or (held is not None and held.round == of):
            return
        mine = participation(of, view)
        refusal = self._refusal(mine)
        if of not in self.waiting:
            self.waiting.append(of)
        if refusal is not None:
            self._alone.add(of)
            raise refusal
        entropy = self._entropy(secure_sum.ENTROPY)  # fresh keys: masks made of one key twice could be subtracted
        while len(self._entered) >= MOST_ROUNDS:
            self._entered.pop(next(iter(self._entered)))
        nothing = Contribution(b"", ring_zeros(mine.task.terms), empty=NOT_IN_TIME)
        member = Member(mine.task, identity=self._identity, value=nothing.value, entropy=entropy)
        self._entered[of] = _Entered(member, mine, nothing)

    def _refusal(self, mine: Participation) -> PolicyError | None:
        """Why this device does not enter a round that it could."""
        if self._paid.how_many_more(mine.cost, day=self._day()) < 1:
            return PolicyError(f"this person's privacy budget does not cover another round for {mine.what}")
        if mine.task.allowed is not None and (most := len(mine.task.allowed)) < mine.task.fewest:
            return PolicyError(
                f"this person takes part only in sums over at least {mine.floor} devices, and of the {most} here only "
                f"{fewest_survivors(mine.task.terms, most)} have to be left when this one is opened"
            )
        return None

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
        except PrirecError as refusal:
            self._entered.pop(of, None)  # nothing of it is sent
            if isinstance(refusal, PolicyError):
                mine.contribution.learn_locally(self._person)
            raise

    def _has_masked(self, of: Round) -> bool:
        """Whether the vector was masked before: then what belongs to it is stored, and must not be stored twice."""
        held = self._person.store.entry(of)
        return held is not None and held.round == of and held.masked
