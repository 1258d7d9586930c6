"""A binary hash tree: one short root stands for a long list, and a part of the list is proved to be part of it.

Nodes are paired level by level; one that is left over at the end of a level moves up as it is. The size is hashed into
the root, so the shape of the tree, and with it what a proof has to hold, follows from the root.
Correct: whoever holds the same list computes the same root. Binding: leaves, nodes and root are hashed under different
first bytes, and of a node's two hashes `check` works out at least one itself, so that a proof cannot shift bytes
between them: two lists, or two sizes, with one root are a collision of SHA-256.
Private: nothing here hides a leaf; proofs hold plain hashes of what they leave out.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from itertools import zip_longest

import numpy as np

from prirec.errors import Fault, PeerError, UsageError
from prirec.types import BoolArray, OffsetArray
from prirec.util.jit import kernel

_LEAF, _NODE, _ROOT = b"\0", b"\1", b"\2"


class Tree:
    """A list that is proved part by part. Its root are the 32 bytes that stand for exactly this list, in this order."""

    __slots__ = ("_nodes", "_size", "root")

    def __init__(self, leaves: Sequence[bytes]) -> None:
        if not leaves:
            raise UsageError("a hash tree needs at least one leaf")
        below = [_leaf(leaf) for leaf in leaves]
        self._size, self._nodes = len(leaves), list(below)  # level after level
        while len(below) > 1:
            below = [_node(*pair) for pair in zip_longest(below[::2], below[1::2])]
            self._nodes += below
        self.root = _root(self._nodes[-1], len(leaves))

    def prove(self, positions: Collection[int]) -> tuple[bytes, ...]:
        """The fewest hashes that `check` needs besides these leaves: level by level, from left to right."""
        known = list(positions)
        if not known or min(known) < 0 or max(known) >= self._size:
            raise UsageError(f"a proof is about at least one of the positions 0 .. {self._size - 1}")
        held = np.zeros(self._size, dtype=np.bool_)
        held[known] = True
        return tuple([self._nodes[at] for at in _lacking(held).tolist()])


def check(root: bytes, *, size: int, known: Mapping[int, bytes], proof: Sequence[bytes]) -> None:
    """Silent if the list of this size with this root has these leaves at these positions; otherwise PeerError."""
    if not known or min(known) < 0 or max(known) >= size:
        raise _refused()
    hashes, rest, width = {at: _leaf(leaf) for at, leaf in known.items()}, iter(proof), size
    while width > 1:
        # the missing come first: zip would otherwise take one hash too many from the proof
        hashes |= dict(zip(_missing(hashes.keys(), width), rest, strict=False))
        if _missing(hashes.keys(), width):
            raise _refused()
        hashes = {at >> 1: _node(hashes[at], hashes.get(at + 1)) for at in hashes if not at & 1}
        width = (width + 1) >> 1
    if next(rest, None) is not None or _root(hashes[0], size) != root:
        raise _refused()


def _missing(known: Collection[int], width: int) -> list[int]:
    """The siblings that a level of this width lacks before its parents can be hashed."""
    return sorted(at for one in known if (at := one ^ 1) < width and at not in known)


@kernel
def _lacking(held: BoolArray) -> OffsetArray:
    """`_missing` at every level, for the leaves that are held: places in the list of all nodes, level after level."""
    level, width, start = held.copy(), held.size, 0
    found, count = np.empty(2 * held.size, dtype=np.int64), 0
    while width > 1:
        for at in range(width):
            other = at ^ 1
            if other < width and level[other] and not level[at]:
                found[count] = start + at
                count += 1
        for at in range(0, width, 2):
            level[at >> 1] = level[at] or (at + 1 < width and level[at + 1])
        start, width = start + width, (width + 1) >> 1
    return found[:count]


def _leaf(leaf: bytes) -> bytes:
    return sha256(_LEAF + leaf).digest()


def _node(left: bytes, right: bytes | None) -> bytes:
    return left if right is None else sha256(_NODE + left + right).digest()


def _root(top: bytes, size: int) -> bytes:
    return sha256(_ROOT + size.to_bytes(8, "big") + top).digest()


def _refused() -> PeerError:
    return PeerError(Fault.PARAMS_MISMATCH, "this is not part of the list with this root")
