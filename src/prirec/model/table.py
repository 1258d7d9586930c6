"""Everyone's linear model in a ring, ready to be summed by neighbours, in simulation on one machine.

The models of N neighbours are most of what a sample fetches from memory, so they are kept as small as they can be.
While N of them cannot leave the ring Z_2^32, a sum in it is the same whole number as in Z_2^64, for half the memory.
"""

from typing import NamedTuple

from prirec.compiled import inlined, lean_kernel
from prirec.model.lanes import LINE
from prirec.model.round_steps import Encoder
from prirec.sharing.fixed_point import FixedPoint, encode_into
from prirec.types import IndexArray, RealArray, RingArray, SignedArray

_NEARLY = 0.99  # leaves room for the rounding of N entries


class Table(NamedTuple):
    """The models, and room for one sum of them. Rows are padded with zeros, so that each has cache lines of its own."""

    rows: RingArray  # (I, at least D + 1)
    total: RingArray  # (at least D + 1,)
    signed: SignedArray  # the same memory as total, as signed integers
    code: Encoder


def narrow(wide: FixedPoint) -> FixedPoint | None:
    """The same fixed point in 32 bits, bounded so that no sum wraps; None where the ring has 32 bits anyway."""
    if wide.ring_bits == 32:
        return None
    bound = min(wide.bound, _NEARLY * 2.0**31 / (wide.summands * wide.scale))
    return FixedPoint(summands=wide.summands, bound=bound, fraction_bits=wide.fraction_bits, ring_bits=32)


def table(W: RealArray, code: FixedPoint) -> Table | None:
    """The models (I, D + 1) in the ring of `code`; None if one of them is outside its bound."""
    line = LINE // code.dtype.itemsize
    width = -(-W.shape[1] // line) * line
    room = code.zeros((len(W) + 1) * width + line)
    first = -room.ctypes.data % LINE // code.dtype.itemsize
    rows = room[first : first + (len(W) + 1) * width].reshape(-1, width)
    encoder = Encoder(code.scale, code.bound)
    fine = _encode_rows(W, encoder, rows)
    return Table(rows[:-1], rows[-1], code.signed(rows[-1]), encoder) if fine else None


@lean_kernel
def _encode_rows(W: RealArray, code: Encoder, rows: RingArray) -> bool:
    fine = True
    for i in range(W.shape[0]):
        fine &= encode_into(W[i], code.scale, code.bound, rows[i])
    return fine


@inlined
def add_rows(table: RingArray, rows: IndexArray, total: RingArray) -> None:
    """The sum of these rows in the ring, six at a time."""
    whole = rows.size // 6 * 6
    for e in range(0, whole, 6):
        a, b, c = table[rows[e]], table[rows[e + 1]], table[rows[e + 2]]
        d, f, g = table[rows[e + 3]], table[rows[e + 4]], table[rows[e + 5]]
        for at in range(total.size):
            total[at] += (a[at] + b[at] + c[at]) + (d[at] + f[at] + g[at])
    for e in range(whole, rows.size):
        a = table[rows[e]]
        for at in range(total.size):
            total[at] += a[at]
