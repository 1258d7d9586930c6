"""A device in its rounds: which sums it enters, and what must be on disk before a word is sent.

It enters a round when it is invited to exactly the one that it has worked out by itself from the signed log, and its
ledger has enough left. What it adds is settled together with the pads: the journal's MASKED, the charge, and what
follows on the device (the moved linear model, or what was added to the sum of visits) are one transaction.
Whether it enters, and what it sends, never depends on what the person's records are (contributing.py).
A life that ends takes its keys with it: the next one hands in again what was masked, bit for bit, and begins no round
anew. A round that the log has left behind is over: nothing more is masked, paid for or handed in for it.
"""

from collections.abc import Callable, Iterable
from os import urandom

from prirec.device.contributing import Contribution, contribution, is_current
from prirec.device.ledger import PaidStore, Price
from prirec.device.person import Person
from prirec.device.view import View
from prirec.errors import PolicyError, PrirecError
from prirec.protocols.actions import Aborted, Action, Persist, Send, Stage
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Invitation, Round
from prirec.protocols.secure_sum import member
from prirec.protocols.secure_sum.member import Member
from prirec.sharing.keys import SigningKey

MOST = 4  # rounds at once: there are never more than two honest ones


def of_use(messages: Iterable[bytes], view: View) -> list[bytes]:
    """Those that are for a round which the log has not left behind."""
    return [body for body in messages if is_current(decode(body).round, view)]


class Rounds:
    """Fed with letters, it answers with what is to be handed in. `day` is today, in days since 1970."""

    def __init__(
        self, person: Person, paid: PaidStore, *, identity: SigningKey, day: Callable[[], int],
        entropy: Callable[[int], bytes] = urandom,
    ) -> None:  # fmt: skip
        self._person, self._paid, self._identity, self._day, self._entropy = person, paid, identity, day, entropy
        self._parties: dict[Round, tuple[Member, Contribution]] = {}
        self.declined: PrirecError | None = None  # why the last round was not entered, or given up
        self.empty: Exception | None = None  # why this device added nothing but zeros to a round, the last time

    def receive(self, body: bytes, view: View) -> list[bytes]:
        """One letter. What does not belong to a round of this device is forgotten."""
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

    def handed_in_before(self, view: View) -> list[bytes]:
        """What an earlier life masked, and may not have got through with."""
        return of_use(self._person.store.pending(), view)

    def forget_past(self, view: View) -> None:
        """When the log has gone on: keys of rounds that are over are dropped, and so are vectors that were masked for
        them. They arrived, or never will."""
        for of in [of for of in self._parties if not is_current(of, view)]:
            del self._parties[of]
        for of in (decode(payload).round for payload in self._person.store.pending()):
            if not is_current(of, view):
                self._paid.write(Persist(of, Stage.BURNT, bytes(32)), day=self._day())

    def _enter(self, of: Round, view: View) -> None:
        """A party for the round, unless there was one before. PolicyError if the ledger does not cover it: then the
        device learns alone."""
        held = self._person.store.entry(of)
        if of in self._parties or (held is not None and held.round == of):
            return
        mine = contribution(of, view, self._person)
        self.empty = mine.empty or self.empty
        if self._paid.how_many_more(mine.cost, day=self._day()) < 1:
            mine.alone(self._person)
            raise PolicyError(f"this person's privacy budget does not cover another round for {mine.what}")
        entropy = self._entropy(member.ENTROPY)
        while len(self._parties) >= MOST:
            self._parties.pop(next(iter(self._parties)))
        self._parties[of] = Member(mine.task, identity=self._identity, value=mine.value, entropy=entropy), mine

    def _do(self, of: Round, actions: Iterable[Action]) -> list[bytes]:
        """What the party asked for, in its order."""
        said = []
        for action in actions:
            match action:
                case Persist():
                    self._write(of, action)
                case Send():
                    said.append(encode(action.message))
                case Aborted():
                    self.declined = action.error
                    self._parties.pop(of, None)
        return said

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
                mine.alone(self._person)
            raise

    def _has_masked(self, of: Round) -> bool:
        """Then this is the same once more, and what follows on the device has followed."""
        held = self._person.store.entry(of)
        return held is not None and held.round == of and held.masked
