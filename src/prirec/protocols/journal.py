"""The life of a round, as rules for what may be persisted: a pad is used once, whatever crashes.

Keys live in memory only, so a crash ends the round for this party; what it had already sent it may send again, bit for
bit. What must be remembered is written before it is used, and these rules say what may be written:

- A number is never gone back to: a new round of a kind has a higher number than any before, and a new attempt is one at
  the last number.
- A new attempt at a number is possible only while nothing was masked at it. So each number takes one vector from a
  device, ever: once a sum may have been opened, there is no second one with a member fewer to subtract from it.
- A stage is settled once. The same again is the same; something else is a conflict, which burns the round.
- A stage that is behind is not written again, not even in the same way: what it led to was done.
- What an operator settles is numbered, 0, 1, 2, ...: none is left out, and none comes once the set of reports is
  closed, or the round is over. The same number again is the same; something else burns the round, too.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256

from prirec.errors import StateError
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Settle, Stage

LIFE = {
    # a collector masks nothing, and where nobody may be missing it has no list of survivors to settle
    Stage.ENTERED: (Stage.MASKED, Stage.AGREED, Stage.OPENED, Stage.BURNT),
    Stage.MASKED: (Stage.AGREED, Stage.BURNT),
    Stage.AGREED: (Stage.REVEALED, Stage.OPENED, Stage.BURNT),  # a collector reveals nothing
    Stage.REVEALED: (Stage.OPENED, Stage.BURNT),
    Stage.OPENED: (),
    Stage.BURNT: (),
}


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What the journal holds of a round number: its last attempt, and how far that came."""

    round: Round
    stage: Stage
    digest: bytes
    payload: bytes = field(default=b"", repr=False)
    masked: bool = False  # whether a vector was masked at this number, by this party or for all that a collector knows


class Verdict(StrEnum):
    WRITE = "write"  # new: write it, then go on
    KNOWN = "known"  # settled already, in the same way: go on


class ConflictError(StateError):
    """A stage, or some reports, were settled in another way before. The store that keeps the journal burns the round,
    which erases what is secret of it, then raises this."""

    def __init__(self, of: Round, stage: Stage | None = None):
        what = "some reports" if stage is None else f"its stage {stage.name}"
        super().__init__(f"this round has settled {what} in another way; it is given up")
        self.round = of


def admit(wanted: Persist, *, held: JournalEntry | None, last: int | None) -> Verdict:
    """Whether this may be written, given what is held for its number and the last number of its kind."""
    if held is None or held.round != wanted.round:
        return _begin(wanted, held=held, last=last)
    if wanted.stage == held.stage:
        if wanted.digest != held.digest and wanted.stage is not Stage.BURNT:  # given up twice is given up
            raise ConflictError(wanted.round, wanted.stage)
        return Verdict.KNOWN
    if wanted.stage not in LIFE[held.stage]:
        raise StateError(f"a round at stage {held.stage.name} does not go to {wanted.stage.name}")
    return Verdict.WRITE


def mark(wanted: Settle) -> bytes:
    """By which the same settlement is known when it comes again."""
    return sha256(sha256(wanted.lines).digest() + wanted.state).digest()


def admit_settled(wanted: Settle, *, held: JournalEntry | None, settled: int, known: bytes | None) -> Verdict:
    """Whether an operator may write this: after so many that are written, of which `known` is the mark of the one with
    this number."""
    if held is None or held.round != wanted.round or held.stage is not Stage.ENTERED:
        raise StateError("reports are settled in a round that was entered, and is not closed")
    if wanted.number > settled:
        raise StateError(f"reports are settled in their order: {wanted.number} is not {settled}, the next number")
    if wanted.number == settled:
        return Verdict.WRITE
    if known != mark(wanted):
        raise ConflictError(wanted.round)
    return Verdict.KNOWN


def _begin(wanted: Persist, *, held: JournalEntry | None, last: int | None) -> Verdict:
    number = wanted.round.number
    if wanted.stage is not Stage.ENTERED:
        raise StateError(f"a round that was never entered, or was begun anew, does not go to {wanted.stage.name}")
    if held is None and last is not None and number <= last:
        raise StateError(f"round {number} is not after {last}, the last one that this party entered")
    if held is not None and (held.masked or wanted.round.attempt <= held.round.attempt):
        raise StateError(f"round {number} was entered before; nobody takes part in a round twice")
    if last is not None and number < last:
        raise StateError(f"round {number} is not begun anew after {last}, the last one that this party entered")
    return Verdict.WRITE


def entry(wanted: Persist, *, held: JournalEntry | None) -> JournalEntry:
    """The entry to write. The masked vector is kept only until there is a list of survivors: by then it has arrived, or
    never will. An operator's noised share is kept for good, to be sent again bit for bit: noise that was drawn again
    would average out."""
    same = held is not None and held.round == wanted.round
    masked = wanted.stage not in (Stage.ENTERED, Stage.BURNT) or (same and held is not None and held.masked)
    payload = b"" if wanted.stage is Stage.BURNT else wanted.payload
    return JournalEntry(wanted.round, wanted.stage, wanted.digest, payload, masked)
