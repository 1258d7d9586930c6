"""Who may report in a deployment over two operators: joined, and not left, in the first so many entries of the log.
Both operators read the same list from the same entries, and nobody else is on it."""

from prirec.errors import Fault, PeerError
from prirec.recommender.store import Store
from prirec.wire.documents import LogEntry, Names, read


class PeopleList:
    """Read once, and gone on with as the log grows."""

    def __init__(self, store: Store) -> None:
        self._store, self._entries, self._names = store, 0, frozenset[bytes]()

    def at(self, entries: int) -> frozenset[bytes]:
        """The list after so many entries."""
        if entries < self._entries:
            self._entries, self._names = 0, frozenset()
        found = self._store.entries_about(("joined", "left"), after=self._entries, before=entries)
        if found:
            names = set(self._names)
            for entry in found:
                change(names, entry, read_names(self._store, entry))
            self._names = frozenset(names)
        self._entries = entries
        return self._names


def read_names(store: Store, entry: LogEntry) -> Names:
    body = store.document(entry.document)
    if body is None:
        raise PeerError(Fault.ORDER, "a list of names is not there")
    return read(Names, body, name=entry.document)


def change(names: set[bytes], entry: LogEntry, said: Names) -> None:
    """PeerError, and nothing changed, for who joins twice, or leaves without having joined."""
    new = set(said.names)
    wrong = new & names if entry.subject == "joined" else new - names
    if wrong or len(new) < len(said.names):
        raise PeerError(Fault.EQUIVOCATION, "a list names somebody who has joined already, or was never there")
    (names.update if entry.subject == "joined" else names.difference_update)(new)
