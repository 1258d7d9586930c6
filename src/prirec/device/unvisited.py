"""Negatives for a person who only told where they were: drawn on the device, from the regions that it has downloaded.

Each visit ranks all candidates by a hash under a secret of the device, and takes the first ones: so they stay the same
from round to round and after a restart, and change as little as they can when visits or regions come. Which they are
nobody else can work out, and nobody is told.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from prirec.data.negatives import POOL
from prirec.geography import located, unit_vectors
from prirec.keyed import mix_each
from prirec.types import IndexArray, OffsetArray, RealArray


def unvisited(
    visits: Sequence[str], place: IndexArray, *, rows: IndexArray, location: RealArray,
    among: Literal["uniform", "nearby"], ratio: int, secret: bytes,
) -> tuple[OffsetArray, IndexArray]:  # fmt: skip
    """For each visit, by its id and its place's position, `ratio` positions of places that the person never visited:
    which visit each belongs to (n,), and the positions (n,). Fewer where fewer are left.

    Nearby: among the closest 200; among all where the visited place has no coordinates."""
    new = np.ones(len(rows), dtype=np.bool_)
    new[place] = False
    anywhere = np.flatnonzero(new).astype(np.int32)
    pools = _nearest(place, location) if among == "nearby" else {}
    of, chosen = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    for at, (visit, here) in enumerate(zip(visits, place.tolist(), strict=True)):
        pool = pools[here][new[pools[here]]] if here in pools else anywhere
        ranks = mix_each(_key(secret, visit), rows[pool].astype(np.uint64))
        few = np.argpartition(ranks, ratio)[:ratio] if ratio < len(ranks) else np.arange(len(ranks))
        first = pool[few[np.argsort(ranks[few])]]  # no two ranks are the same: a key maps rows one to one
        of.append(np.full(len(first), at, dtype=np.int64))
        chosen.append(first)
    return np.concatenate(of), np.concatenate(chosen)


def _nearest(place: IndexArray, location: RealArray) -> dict[int, IndexArray]:
    """The closest places to each of these, itself among them, as far as they have coordinates."""
    there = np.flatnonzero(located(location)).astype(np.int32)
    anchors = np.intersect1d(place, there)
    if not len(anchors):
        return {}
    width = min(POOL + 1, len(there))
    tree = cKDTree(unit_vectors(location[there]))
    near = tree.query(unit_vectors(location[anchors]), k=np.arange(1, width + 1))[1]
    return dict(zip(anchors.tolist(), there[near], strict=True))


def _key(secret: bytes, visit: str) -> np.uint64:
    digest = blake2b(visit.encode(), digest_size=8, key=secret, person=b"prirec unvisited").digest()
    return np.uint64(int.from_bytes(digest, "little"))
