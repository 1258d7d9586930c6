"""A device in the sums of a campaign: what it adds to the sum of visits and in each round, what that costs, and what
must be on disk before a message is sent.

What a round computes is defined in prirec/rounds; the letters are those of docs/how-it-works.md. Every contribution
leaves this file in whole numbers and no longer than its norm; protocols/secure_sum.py masks it and adds the share of
noise.
"""

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from os import urandom
from typing import TypeVar

import numpy as np

from prirec.device.ledger import LedgerStore, Price
from prirec.device.person import Person
from prirec.device.records import Records, encode_records, visited_positions
from prirec.device.store import LinearModel, VisitContribution, save_model, save_visit_contribution
from prirec.device.sync import View
from prirec.errors import Fault, PeerError, PolicyError, PrirecError, UsageError
from prirec.features.popularity import OwnCounts
from prirec.model.block_steps import mix_model
from prirec.model.public_half import public
from prirec.privacy.accountant import Spent
from prirec.privacy.norm import clipped
from prirec.privacy.plan import popularity_entries
from prirec.privacy.weighted_popularity import weighted
from prirec.protocols import secure_sum, terms
from prirec.protocols.codec import decode, encode, positions
from prirec.protocols.messages import Invitation, Round
from prirec.protocols.party import Aborted, Action, Persist, Send, Stage
from prirec.protocols.roster import Task
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


# Contributions: what a device adds to each kind of sum and what it costs, from the signed log and its own data alone.
#
# Which round it is and what it costs follow from public documents, and are refused where these are wrong. What is added
# follows from the person's records as well, and a failure there must not be visible to anybody: whoever writes the
# documents could choose them so that some records fail and others do not, and learn from a device's silence, for free,
# which ones it has. So the device adds zeros instead, at the full price, and its model stays as it was.


WHAT = {  # for the ledger and the agent's news, in words
    "popularity": "how popular places are",
    "linear": "mixing linear models in the neighbourhood",
    "interaction": "the feature interaction model V",
}

_Made = TypeVar("_Made")


def _nothing(rows: sqlite3.Connection) -> None:
    """Stores nothing beside the journal: the sum has no effect on this device."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One vector for one sum, its price, and what is stored on the device together with it."""

    task: Task
    value: RingArray = field(repr=False)
    what: str  # for the ledger, in words
    cost: Spent
    settle: Callable[[sqlite3.Connection], None] = field(default=_nothing, repr=False)
    empty: Exception | None = field(default=None, repr=False)  # why it is zeros; shown to the person, sent to nobody

    def learn_locally(self, person: Person) -> None:
        """Where the budget does not cover the sum, store the local step all the same: nothing of it is sent."""
        if self.task.round.kind == "interaction":
            with person.store.transaction() as rows:
                self.settle(rows)


def contribution(of: Round, view: View, person: Person) -> Contribution:
    """What this device adds to a round that it was invited to. PeerError if the round is not the one that the device
    has worked out from its own log."""
    if not is_current(of, view):
        raise PeerError(Fault.ORDER, "this device's log is not at the round that it is invited to")
    campaign, model = view.campaign, view.model
    if campaign is None or view.position is None:
        raise PeerError(Fault.ORDER, "this device has no part in that campaign")
    if model is None:
        made = _visits(of, view, campaign, person)
    else:
        made = (_mixing if of.kind == "linear" else _learning)(of, view, campaign, model, person)
    return replace(made, task=replace(made.task, allowed=view.allowed(of.kind)))


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


def _visits(of: Round, view: View, campaign: Campaign, person: Person) -> Contribution:
    task = _require_round(campaign.popularity(attempt=of.attempt), of)
    nowhere = VisitContribution(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    visited, why = _computed(lambda: visited_places(person, campaign, view.known), instead=nowhere)
    settle = partial(save_visit_contribution, campaign=campaign.name, visited=visited)
    return _priced(task, visits_vector(visited, campaign), campaign, settle, why)


def _mixing(of: Round, view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, centre, held = _interaction(model, campaign), _centre(view), person.model(campaign.name)
    task = campaign.mixing(model.iteration, view.cohort or 0, V=V, centre=centre, attempt=of.attempt)
    value, why = _computed(
        lambda: mixing_vector(campaign, _linear(held, campaign), centre=centre),
        instead=campaign.rounds.linear.ring.zeros(len(centre)),
    )
    return _priced(_require_round(task, of), value, campaign, _nothing, why)


def _learning(of: Round, view: View, campaign: Campaign, model: Model, person: Person) -> Contribution:
    V, t, cohort = _interaction(model, campaign), model.iteration, view.cohort
    opened = cohort in positions(model.opened, size=len(model.means))
    mean = _centre(view) if opened else None
    task, held = _require_round(campaign.interaction(t, V=V, attempt=of.attempt), of), person.model(campaign.name)
    zeros = campaign.rounds.interaction.ring.zeros(V.size)
    if held is not None and held.iteration > t:  # an earlier attempt of this round was learnt from; once is enough
        return _priced(task, zeros, campaign, _nothing)
    linear = _linear(held, campaign)
    learnt, why = _computed(
        lambda: learn(
            encode_records(person, campaign, view.known), campaign, linear=linear, interaction=V, iteration=t, mean=mean
        ),
        instead=LocalUpdate(linear, zeros, 0.0),
    )
    mixed_in = (view.mean_name or b"") if opened and why is None else b""
    moved = LinearModel(campaign.name, t + 1, learnt.linear, mixed_in)
    return _priced(task, learnt.contribution, campaign, partial(save_model, model=moved), why)


def _computed(work: Callable[[], _Made], *, instead: _Made) -> tuple[_Made, Exception | None]:
    """What is computed from the person's records, or `instead` of it and the reason. Every exception is caught: any
    kind of failure would say something about the records. What is wrong in public documents was refused before."""
    try:
        return work(), None
    except Exception as problem:
        return instead, problem.with_traceback(None)  # a traceback holds the frames, and with them the records


def _linear(held: LinearModel | None, campaign: Campaign) -> RealArray:
    """W_i as it was stored last; 0 before a campaign's first round."""
    return initial_model(campaign) if held is None else held.linear


def _require_round(task: Task, of: Round) -> Task:
    if task.round != of:
        raise PeerError(Fault.PARAMS_MISMATCH, "this device is invited to another round than its own")
    return task


def _priced(
    task: Task, value: RingArray, campaign: Campaign, settle: Callable[[sqlite3.Connection], None],
    empty: Exception | None = None,
) -> Contribution:  # fmt: skip
    kind = task.round.kind
    return Contribution(
        task, value, WHAT[kind], terms.privacy_cost(task.terms, norm=campaign.norm(kind)), settle, empty
    )


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


# Taking part: which sums a device enters, and what must be on disk before a message is sent.
#
# It enters a round when it is invited to exactly the one that it has worked out by itself from the signed log, and its
# ledger covers the price. The journal's entry MASKED, the charge, and what is stored on the device (the moved linear
# model, or what was added to the sum of visits) are one transaction: after a crash all of it has happened, or nothing.
# Whether it enters, and what it sends, never depends on the person's records (see above).
# Keys are in memory only. A process that starts again posts what was masked before, bit for bit, and enters no round a
# second time. A round that the log has left behind is over: nothing more is masked, paid for or posted for it.


# at once: an honest recommender never has more than two, and each one holds keys and a vector in memory
MOST_ROUNDS = 4


def still_current(messages: Iterable[bytes], view: View) -> list[bytes]:
    """Those of these messages whose round the log has not left behind."""
    return [body for body in messages if is_current(decode(body).round, view)]


class Rounds:
    """The rounds that a device is in. Fed with messages from the mailbox, it returns those to post. `day` is today, in
    days since 1970."""

    def __init__(
        self, person: Person, paid: LedgerStore, *, identity: SigningKey, day: Callable[[], int],
        entropy: Callable[[int], bytes] = urandom,
    ) -> None:  # fmt: skip
        self._person, self._paid, self._identity, self._day, self._entropy = person, paid, identity, day, entropy
        self._parties: dict[Round, tuple[Member, Contribution]] = {}  # rounds that this process has entered
        self.declined: PrirecError | None = None  # why the last round was not entered, or given up
        self.empty: Exception | None = None  # why this device added nothing but zeros to a round, the last time

    def receive(self, body: bytes, view: View) -> list[bytes]:
        """Process a message, and return the answers. What does not belong to a round of this device is ignored."""
        try:
            message = decode(body)
            if isinstance(message, Invitation):
                self._enter(message.round, view)
            if message.round not in self._parties:
                return []
            return self._do(message.round, self._parties[message.round][0].receive(message))
        except PrirecError as refusal:
            self.declined = refusal
            return []

    def pending_messages(self, view: View) -> list[bytes]:
        """Masked vectors that an earlier process journalled and may not have posted: they are posted again, bit for
        bit."""
        return still_current(self._person.store.pending(), view)

    def forget_past(self, view: View) -> None:
        """When the log has gone on: drops the keys of rounds that are over, and vectors that were masked for them. They
        were delivered, or never will be."""
        for of in [of for of in self._parties if not is_current(of, view)]:
            del self._parties[of]
        for of in (decode(payload).round for payload in self._person.store.pending()):
            if not is_current(of, view):
                self._paid.write(Persist(of, Stage.BURNT, bytes(32)), day=self._day())

    def _enter(self, of: Round, view: View) -> None:
        """Makes a party for the round, unless there was one before. PolicyError if the ledger does not cover the price:
        then the device learns for itself."""
        held = self._person.store.entry(of)
        if of in self._parties or (held is not None and held.round == of):
            return
        mine = contribution(of, view, self._person)
        self.empty = mine.empty or self.empty
        if self._paid.how_many_more(mine.cost, day=self._day()) < 1:
            mine.learn_locally(self._person)
            raise PolicyError(f"this person's privacy budget does not cover another round for {mine.what}")
        entropy = self._entropy(secure_sum.ENTROPY)  # fresh keys: masks made of one key twice could be subtracted
        while len(self._parties) >= MOST_ROUNDS:
            self._parties.pop(next(iter(self._parties)))
        self._parties[of] = Member(mine.task, identity=self._identity, value=mine.value, entropy=entropy), mine

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
                    self._parties.pop(of, None)
        return messages

    def _write(self, of: Round, persist: Persist) -> None:
        mine = self._parties[of][1]
        try:
            if persist.stage is Stage.MASKED:
                price, settle = Price(mine.what, mine.cost), None if self._has_masked(of) else mine.settle
                self._paid.write(persist, day=self._day(), price=price, together=settle)
            else:
                self._paid.write(persist, day=self._day())
        except PrirecError as refusal:
            self._parties.pop(of, None)  # nothing of it is sent
            if isinstance(refusal, PolicyError):
                mine.learn_locally(self._person)
            raise

    def _has_masked(self, of: Round) -> bool:
        """Whether the vector was masked before: then what belongs to it is stored, and must not be stored twice."""
        held = self._person.store.entry(of)
        return held is not None and held.round == of and held.masked
