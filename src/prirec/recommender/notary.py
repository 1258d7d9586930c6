"""The recommender's own documents, and its signature under what the log says of them."""

from collections.abc import Callable, Sequence

from prirec.contract.log import Head, SignedEntry, Subject
from prirec.errors import StateError
from prirec.recommender.store import Founding, Store
from prirec.sharing.keys import SigningKey


def document(store: Store, name: bytes) -> bytes:
    """One that the log, or another document of the recommender's, names."""
    body = store.document(name)
    if body is None:
        raise StateError("the store lacks a document that its own log names; restore it from a backup")
    return body


def signing(founding: Founding, said: Sequence[tuple[Subject, bytes]]) -> Callable[[Head], list[SignedEntry]]:
    """The entries about these documents, for whatever head the log has when they are written."""
    identity, deployment = SigningKey(founding.identity), founding.deployment

    def signed(head: Head) -> list[SignedEntry]:
        entries: list[SignedEntry] = []
        for subject, named in said:
            entries.append(head.signed(subject, named, deployment=deployment, identity=identity))
            head = head.after(entries[-1:], deployment=deployment, recommender=identity.public)
        return entries

    return signed
