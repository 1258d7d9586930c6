"""What devices hand in and what waits for them, as rows. Both belong to a round that is open, and go with it;
and only those hand in who were invited to it."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate

from prirec.contract.wire import Letter
from prirec.errors import StateError
from prirec.protocols.messages import Round
from prirec.recommender.database import Rows
from prirec.recommender.store_conducting import numbers
from prirec.recommender.store_rounds import open_ids

MOST_SAID = 6  # different messages of one device in a round: a member of a sum has five to send, and may err once
MOST_BYTES = 64 * 2**20  # of messages that are looked at together
MOST_ASKED = 256  # names in one question
_SAME_AGAIN = "ON CONFLICT (round, sender, digest) DO NOTHING"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as it was handed in, by whom and for which round."""

    round: Round
    sender: bytes
    body: bytes = field(repr=False)


def invite(rows: Rows, invited: Sequence[tuple[bytes, Round]]) -> None:
    """From now on these may hand in messages, each for its round. StateError where one is not open."""
    ids = _open(rows, (of for _, of in invited))
    names = [(ids[of], name) for name, of in invited]
    rows.insert("invited (round, name)", names, "ON CONFLICT (round, name) DO NOTHING")


def hand_in(rows: Rows, items: Sequence[Incoming]) -> list[bool]:
    """Of each whether its round is open and its sender was invited to it. The same message again is one; a second of
    another kind is kept, for the collector to judge, up to as many as nobody honest sends."""
    ids = open_ids(rows, (item.round for item in items))
    guests = _guests(rows, ids, items)
    welcome = [item.sender in guests.get(item.round, ()) for item in items]
    taken = [item for item, good in zip(items, welcome, strict=True) if good]
    first = numbers(rows, "inbox", many=len(taken)) if taken else 0
    kept = [(at, ids[one.round], one.sender, _digest(one.body), one.body) for at, one in enumerate(taken, first)]
    if _said_at_most(rows, kept) <= MOST_SAID:
        rows.insert("inbox (number, round, sender, digest, body)", kept, _SAME_AGAIN)
    else:
        query = "INSERT INTO inbox (number, round, sender, digest, body) SELECT ?, ?, ?, ?, ?"
        room = " WHERE (SELECT count(*) FROM inbox WHERE round = ? AND sender = ?) < ? "
        rows.change_each(query + room + _SAME_AGAIN, [(*one, one[1], one[2], MOST_SAID) for one in kept])
    return welcome


def incoming(rows: Rows, after: int, most: int) -> list[tuple[int, bytes]]:
    """In order; fewer than `most` where they are large, but at least one. Sizes are read first: they cost no more than
    the rows' heads."""
    sizes = rows.all("SELECT number, length(body) FROM inbox WHERE number > ? ORDER BY number LIMIT ?", after, most)
    if not sizes:
        return []
    many = max(1, bisect_right(list(accumulate(size for _, size in sizes)), MOST_BYTES))
    last = sizes[many - 1][0]
    found = rows.all("SELECT number, body FROM inbox WHERE number > ? AND number <= ? ORDER BY number", after, last)
    return [(number, body) for number, body in found]


def deliver(rows: Rows, letters: Sequence[tuple[bytes, Round, bytes]]) -> int:
    """The number of the first; the others follow it. StateError, and none delivered, where a round is not open."""
    ids = _open(rows, (of for _, of, _ in letters))
    first = numbers(rows, "mail", many=len(letters))
    written = [(at, ids[of], receiver, body) for at, (receiver, of, body) in enumerate(letters, first)]
    rows.insert("mail (number, round, receiver, body)", written)
    return first


def letters(rows: Rows, receiver: bytes, after: int, most: int) -> list[Letter]:
    query = "SELECT number, body FROM mail WHERE receiver = ? AND number > ? ORDER BY number LIMIT ?"
    return [Letter(number, body) for number, body in rows.all(query, receiver, after, most)]


def receivers_since(rows: Rows, after: int) -> tuple[int, set[bytes]]:
    """The count is read first: all letters up to it are there to be seen when the second question is asked."""
    row = rows.one("SELECT value FROM counters WHERE name = 'mail'")
    latest = after if row is None else int(row[0])
    if latest <= after:
        return latest, set()
    query = "SELECT DISTINCT receiver FROM mail WHERE number > ? AND number <= ?"
    return latest, {receiver for (receiver,) in rows.all(query, after, latest)}


def throw_away(rows: Rows, arrived: Sequence[tuple[bytes, int]]) -> None:
    """The letters of each receiver up to a number: they have arrived."""
    rows.change_each("DELETE FROM mail WHERE receiver = ? AND number <= ?", arrived)


def _open(rows: Rows, rounds: Iterable[Round]) -> dict[Round, int]:
    """All of them."""
    wanted = set(rounds)
    ids = open_ids(rows, wanted)
    if len(ids) < len(wanted):
        raise StateError("letters are sent in a round that is open; this one was never entered, or is over")
    return ids


def _said_at_most(rows: Rows, kept: Sequence[tuple[int, int, bytes, bytes, bytes]]) -> int:
    """As often as anybody will have spoken in a round, or a little more where the same is said again."""
    now, before = Counter((of, sender) for _, of, sender, _, _ in kept), 0
    for number in {of for of, _ in now}:
        for marks, senders in _asked([sender for of, sender in now if of == number]):
            each = f"SELECT count(*) AS said FROM inbox WHERE round = ? AND sender IN {marks} GROUP BY sender"  # noqa: S608
            row = rows.one(f"SELECT max(said) FROM ({each}) AS each", number, *senders)  # noqa: S608
            before = max(before, (row and row[0]) or 0)
    return before + max(now.values(), default=0)


def _guests(rows: Rows, ids: Mapping[Round, int], items: Sequence[Incoming]) -> dict[Round, set[bytes]]:
    """Of each round that is open, who was invited to it among those who have sent something."""
    senders: dict[Round, set[bytes]] = {of: set() for of in ids}
    for item in items:
        if item.round in senders:
            senders[item.round].add(item.sender)
    return {of: _invited(rows, ids[of], list(names)) for of, names in senders.items()}


def _invited(rows: Rows, number: int, names: Sequence[bytes]) -> set[bytes]:
    """Those of these names that were invited to a round: most often all of them, and then they are only counted."""
    found = set[bytes]()
    for marks, asked in _asked(names):
        among, everyone = f"FROM invited WHERE round = ? AND name IN {marks}", set(asked)
        if rows.one(f"SELECT count(*) {among}", number, *asked) == (len(everyone),):
            found |= everyone
        else:
            found.update(name for (name,) in rows.all(f"SELECT name {among}", number, *asked))
    return found


def _asked(names: Sequence[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Some at a time, with marks for them. A statement asks for a power of two, the last name again and again if need
    be: so there are few statements, and each is prepared once."""
    for first in range(0, len(names), MOST_ASKED):
        some = list(names[first : first + MOST_ASKED])
        asked = some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
        yield f"({', '.join('?' * len(asked))})", asked


def _digest(body: bytes) -> bytes:
    """To know the same again. Who finds two of its own messages with one digest has merely sent one of them."""
    return sha256(body).digest()[:16]
