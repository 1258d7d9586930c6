"""From settings and V, which everyone has, to what a round is agreed on."""

from fractions import Fraction
from hashlib import sha256
from math import floor as floor_of
from typing import Literal

import numpy as np

from prirec.protocols.messages import Terms
from prirec.settings import Sums
from prirec.sharing.fixed_point import FixedPoint
from prirec.types import RealArray


def model_hash(*models: RealArray) -> bytes:
    """H(V), or of V and a cohort's centre: of shapes and of every bit. A device takes it of what it holds itself."""
    digest = sha256(b"prirec V")
    for model in models:
        digest.update(np.array([model.ndim, *model.shape], dtype="<u8").tobytes() + model.astype("<f8").tobytes())
    return digest.digest()


def double_masks(
    code: FixedPoint, *, length: int, opening: Literal["collector", "members"], floor: int, sums: Sums, noise: int = 0
) -> Terms:
    """A sum that survives drop-outs: the default. The noise is a variance, in whole numbers of the ring."""
    shares = {"corrupt": round(1000 * sums.corrupt), "lost": round(1000 * sums.lost)}
    return _terms(code, "double", opening, length=length, floor=floor, noise=noise, **shares)


def all_or_nothing(code: FixedPoint, method: Literal["shares", "pads"], *, length: int, people: int) -> Terms:
    """A sum as in the paper, by shares or under pads: nobody may be missing."""
    return _terms(code, method, "collector", length=length, floor=people, corrupt=0, lost=0)


def _terms(
    code: FixedPoint, method: Literal["shares", "pads", "double"], opening: Literal["collector", "members"], *,
    length: int, floor: int, corrupt: int, lost: int, noise: int = 0,
) -> Terms:  # fmt: skip
    bits: Literal[32, 64] = 64 if code.ring_bits == 64 else 32
    bound = max(1, floor_of(Fraction(code.bound) * 2**code.fraction_bits + Fraction(1, 2)))  # the largest when rounded
    return Terms(method, opening, length, bits, code.fraction_bits, bound, floor, corrupt, lost, noise)
