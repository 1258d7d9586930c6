"""The recommender's public log: a hash chain of signed entries that name the documents in force.

Each entry holds the hash of the one before. A device stores the last entry that it verified and refuses a log that does
not continue from there, so that a recommender cannot rewrite what it has published. A recommender that shows two
devices different logs is caught when the members of a round sign what they hold (protocols/codec.py).
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
    """One published document: its kind and its address."""

    version: Literal[1]
    deployment: Deployment
    index: Natural
    previous: Digest  # of the entry before; zeros in the first
    subject: Subject
    document: Digest


class SignedEntry(Part, frozen=True):
    entry: LogEntry
    signature: Signature


class Page(Part, frozen=True, tag="prirec log"):
    """GET /v1/log: entries from an index on, as many as fit."""

    entries: Annotated[tuple[SignedEntry, ...], Meta(max_length=MOST)]


@dataclass(frozen=True, slots=True)
class Head:
    """The length of a verified log, and the hash of its last entry."""

    length: int = 0
    last: bytes = bytes(32)

    def signed(self, subject: Subject, document: bytes, *, deployment: bytes, identity: SigningKey) -> SignedEntry:
        """The next entry. The recommender runs it."""
        entry = LogEntry(VERSION, deployment, self.length, self.last, subject, document)
        return SignedEntry(entry, identity.sign(encode(entry)))

    def after(self, entries: Sequence[SignedEntry], *, deployment: bytes, recommender: Name) -> Self:
        """The head after these entries. PeerError if they do not continue from here, or are not the recommender's."""
        length, last = self.length, self.last
        for one in entries:
            entry = one.entry
            if (entry.deployment, entry.index, entry.previous) != (deployment, length, last):
                raise PeerError(Fault.EQUIVOCATION, "the recommender's log does not go on from where it was")
            # the chain before the signature: comparing is cheap, and a signature of another log proves nothing
            verify(recommender, signature=one.signature, message=encode(entry))
            length, last = length + 1, digest(entry)
        return type(self)(length, last)
