"""The recommender's log: what it has ever said to everyone, in an order that it cannot change afterwards.

Each entry names the one before, and is signed. A device keeps the last entry that it has checked; a log that does not
go on from there is another one, and the device does not follow. That two devices are told the same, members of a round
find out when they sign what they hold (protocols/codec.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from msgspec import Meta

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import digest, encode
from prirec.protocols.messages import Digest, Name, Natural, Part, Signature
from prirec.sharing.keys import SigningKey, verify
from prirec.wire.documents import VERSION, Deployment

MOST = 1000  # entries in one answer

Subject = Literal["catalogue", "charter", "edition", "model", "publication"]


class LogEntry(Part, frozen=True, tag="prirec log entry"):
    version: Literal[1]
    deployment: Deployment
    index: Natural
    previous: Digest  # of the entry before; zeros at the first
    subject: Subject
    document: Digest


class SignedEntry(Part, frozen=True):
    entry: LogEntry
    signature: Signature


class Page(Part, frozen=True, tag="prirec log"):
    """Entries from an index on, as many as fit."""

    entries: Annotated[tuple[SignedEntry, ...], Meta(max_length=MOST)]


@dataclass(frozen=True, slots=True)
class Head:
    """How far a log is known."""

    length: int = 0
    last: bytes = bytes(32)

    def signed(self, subject: Subject, document: bytes, *, deployment: bytes, identity: SigningKey) -> SignedEntry:
        """The next entry. The recommender's side."""
        entry = LogEntry(VERSION, deployment, self.length, self.last, subject, document)
        return SignedEntry(entry, identity.sign(encode(entry)))

    def after(self, entries: Sequence[SignedEntry], *, deployment: bytes, recommender: Name) -> Self:
        """How far it is known with these. PeerError if they do not go on from here, or are not the recommender's."""
        length, last = self.length, self.last
        for one in entries:
            entry = one.entry
            if (entry.deployment, entry.index, entry.previous) != (deployment, length, last):
                raise PeerError(Fault.EQUIVOCATION, "the recommender's log does not go on from where it was")
            verify(recommender, signature=one.signature, message=encode(entry))
            length, last = length + 1, digest(entry)
        return type(self)(length, last)
