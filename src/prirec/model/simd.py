"""Vector instructions, written down: what lanes.py, pull_lanes.py, row_lanes.py and entries.py are compiled to.

Left to itself, the compiler asks at every short loop whether arrays overlap and how many turns there are; at a few
turns a loop, that was much of what a round did."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from prirec.types import FeatureArray, IndexArray, RealArray, RingArray, ValueArray
from prirec.util.jit import UNCOUNTED, inlined

REAL, INDEX, WORD = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_ALIGN = 4  # bytes: lanes may begin at any number
_REALS = (types.float32, types.float64)
_INLINED: Any = {"forceinline": True, **UNCOUNTED}
_emitting: Any = cgutils
Number = Callable[[Any], Any]  # emits what belongs to an entry, given its position


def word(value: int) -> Any:
    return ir.Constant(WORD, value)


def vector(lanes: int, value: float | None = None) -> Any:
    """All lanes the same; without a value, as they come."""
    kind = ir.VectorType(REAL, lanes)
    return ir.Constant(kind, ir.Undefined if value is None else [value] * lanes)


def spread(builder: Any, value: Any, lanes: int) -> Any:
    """One number in every lane."""
    first = builder.insert_element(vector(lanes), value, ir.Constant(INDEX, 0))
    return builder.shuffle_vector(first, vector(lanes), ir.Constant(ir.VectorType(INDEX, lanes), [0] * lanes))


def lane(builder: Any, of: Any, at: int) -> Any:
    return builder.extract_element(of, ir.Constant(INDEX, at))


def ir_sum(builder: Any, of: Any) -> Any:
    """The sum of all lanes: the second half is added to the first, until one is left."""
    lanes = of.type.count
    while lanes > 1:
        lanes //= 2
        halves = (
            builder.shuffle_vector(of, of, ir.Constant(ir.VectorType(INDEX, lanes), list(range(at, at + lanes))))
            for at in (0, lanes)
        )
        of = builder.fadd(*halves)
    return lane(builder, of, 0)


def _place(builder: Any, array: Any, where: Any, lanes: int) -> Any:
    """Where in memory the lanes from array[where] on stand."""
    first = builder.gep(array.data, [where])
    return builder.bitcast(first, ir.VectorType(first.type.pointee, lanes).as_pointer())


def read(builder: Any, array: Any, where: Any, lanes: int) -> Any:
    """array[where], array[where + 1], ...; reals as float64."""
    found = builder.load(_place(builder, array, where, lanes), align=_ALIGN)
    return builder.fpext(found, ir.VectorType(REAL, lanes)) if found.type.element == ir.FloatType() else found


def write(builder: Any, array: Any, where: Any, values: Any) -> None:
    builder.store(values, _place(builder, array, where, values.type.count), align=_ALIGN)


def number(builder: Any, array: Any, where: Any) -> Any:
    """array[where], a real as float64 and a whole number as int64."""
    value = builder.load(builder.gep(array.data, [where]))
    if value.type == INDEX:
        return builder.sext(value, WORD)
    return value if value.type in (REAL, WORD) else builder.fpext(value, REAL)


def put(builder: Any, array: Any, where: Any, value: Any) -> None:
    """array[where] = value, an int64 also into an array of int32."""
    to = builder.gep(array.data, [where])
    builder.store(builder.trunc(value, INDEX) if to.type.pointee == INDEX else value, to)


def cell(builder: Any, table: Any, row: Any, column: Any) -> Any:
    """Where table[row, column] stands in a matrix that is read as one array."""
    return builder.add(builder.mul(row, builder.extract_value(table.shape, 1)), column)


def start_at(builder: Any, value: Any) -> Any:
    """A number or vector that a loop adds to."""
    return _emitting.alloca_once_value(builder, value)


def add_to(builder: Any, total: Any, term: Any) -> None:
    builder.store(builder.fadd(builder.load(total), term), total)


def packed(builder: Any, values: list[Any]) -> Any:
    """Numbers of one kind as a tuple of Python's."""
    return _emitting.pack_array(builder, values)


@contextmanager
def each(builder: Any, start: Any, stop: Any) -> Iterator[Any]:
    """A loop over start, start + 1, ..., stop - 1."""
    with _emitting.for_range_slice(builder, start, stop, word(1)) as (at, _):
        yield at


def compiles(
    meaning: Callable[..., Any], answer: Any = types.void, *,
    writes: Collection[str] = (), indices: Collection[str] = (), words: Collection[str] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """What `meaning` says in Python, kernels get from `generate`, which is given a builder and the same arguments.
    Arrays are of reals, or where named of int32 and uint64; of them, only what is named is written to."""
    kinds = {**dict.fromkeys(indices, (types.int32,)), **dict.fromkeys(words, (types.uint64,))}

    def decorate(generate: Callable[..., Any]) -> Callable[..., Any]:
        def typed(_typing: Any, *given: Any) -> tuple[Any, Any]:
            for name, kind in zip(signature(meaning).parameters, given, strict=True):
                if isinstance(kind, types.Array):
                    _check(kind, kinds.get(name, _REALS), written=name in writes)
            return answer(*(_taken_as(kind) for kind in given)), emit

        def emit(context: Any, builder: Any, of: Any, given: Any) -> Any:
            value = generate(builder, *_opened(context, builder, of, given))
            return context.get_dummy_value() if value is None else value

        context = Parameter("_typing", Parameter.POSITIONAL_OR_KEYWORD)
        typed.__signature__ = Signature([context, *signature(meaning).parameters.values()])  # type: ignore[attr-defined]
        call: Any = intrinsic(typed)
        overload(meaning, jit_options=_INLINED, strict=False)(lambda *_: lambda *given: call(*given))
        return generate

    return decorate


def _taken_as(kind: Any) -> Any:
    if isinstance(kind, types.Array):
        return kind
    return types.intp if isinstance(kind, types.Integer) else types.float64


def _opened(context: Any, builder: Any, of: Any, given: Any) -> list[Any]:
    """The arguments, with arrays opened."""
    pairs = zip(of.args, given, strict=True)
    return [context.make_array(t)(context, builder, a) if isinstance(t, types.Array) else a for t, a in pairs]


def _check(array: Any, kinds: tuple[Any, ...], *, written: bool) -> None:
    """Lanes are read straight from memory, so their numbers must stand next to each other there."""
    if array.layout != "C" or not array.aligned or array.dtype not in kinds:
        raise TypingError(f"lanes need contiguous arrays of {' or '.join(map(str, kinds))}")
    if written and (not array.mutable or array.dtype == types.float32):
        raise TypingError("lanes are written to arrays that may be written to, and reals to float64")


# Sums side by side. The compiler may not reorder a sum, so it adds one number after the other; but sums that do not
# depend on each other, like the K of a pull, take the time of one side by side. To the same bits as one by one.


LANES = 8  # sums side by side in a pull
LINE = 64  # bytes that memory hands over together
_FOUR = 4  # sums side by side in a product
_kinds: Any = types


def whole_lanes(dimension: int) -> int:
    """K, or as many more as fill the last lanes."""
    return -(-dimension // LANES) * LANES


def in_lines(*shape: int, dtype: Any = np.float64) -> Any:
    """Zeros that begin where a line of memory begins: lanes that lie in two lines take twice the time."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + LINE, dtype=np.uint8)
    first = -room.ctypes.data % LINE
    return room[first : first + size].view(dtype).reshape(shape)


def in_lanes(interaction: RealArray) -> RealArray:
    """V (D, K) with rows filled up with zeros, which pull nowhere: (D, L)."""
    D, K = interaction.shape
    rows: RealArray = in_lines(D, whole_lanes(K))
    rows[:, :K] = interaction
    return rows


def out_of_lanes(rows: RealArray | RingArray, dimension: int) -> Any:
    """(D, L) to (K * D,): component after component, as a gradient of V is summed."""
    return rows[:, :dimension].T.ravel()


def added_up(lanes: RealArray) -> float:
    """The sum of lanes: the second half is added to the first, until one is left."""
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return float(lanes[0])


def four_sums(w: RealArray, first: int, x: ValueArray) -> tuple[float, float, float, float]:
    """The sums of w[first + d] x[d] with d = 0, 1, 2 and 3 modulo 4, without the last few that do not make four."""
    sums = [0.0] * 4
    for d in range(x.size // 4 * 4):
        sums[d % 4] += float(w[first + d]) * float(x[d])
    return sums[0], sums[1], sums[2], sums[3]


def add_times(out: RealArray, first: int, x: ValueArray, much: float) -> None:
    """out[first + d] += much x[d]."""
    out[first : first + x.size] += much * x.astype(np.float64)


@compiles(four_sums, _kinds.UniTuple(types.float64, _FOUR))
def _emit_sums(builder: Any, w: Any, first: Any, x: Any) -> Any:
    many = builder.udiv(builder.extract_value(x.shape, 0), word(_FOUR))
    total = start_at(builder, vector(_FOUR, 0.0))
    with each(builder, word(0), many) as at:
        where = builder.mul(at, word(_FOUR))
        own = read(builder, w, builder.add(first, where), _FOUR)
        add_to(builder, total, builder.fmul(own, read(builder, x, where, _FOUR)))
    sums = builder.load(total)
    return packed(builder, [lane(builder, sums, at) for at in range(_FOUR)])


@compiles(add_times, writes=["out"])
def _emit_times(builder: Any, out: Any, first: Any, x: Any, much: Any) -> None:
    size = builder.extract_value(x.shape, 0)
    many, wide = builder.udiv(size, word(_FOUR)), spread(builder, much, _FOUR)
    with each(builder, word(0), many) as at:
        where = builder.mul(at, word(_FOUR))
        to = builder.add(first, where)
        more = builder.fmul(wide, read(builder, x, where, _FOUR))
        write(builder, out, to, builder.fadd(read(builder, out, to, _FOUR), more))
    with each(builder, builder.mul(many, word(_FOUR)), size) as at:
        to = builder.add(first, at)
        moved = builder.fadd(number(builder, out, to), builder.fmul(much, number(builder, x, at)))
        put(builder, out, to, moved)


# The pulls of Eq. (1), eight components side by side: V (D, L), in whole lanes, is read a row at a time.
#
# Each function takes components at, ..., at + 7. A pull is summed in the order of kernels.add_pull, to the same bits.


def pull_of_entries(
    V: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, out: RealArray,
    row: int, at: int,
) -> float:  # fmt: skip
    """The pull of entries start to stop of somebody's or some place's features, which stand in V from row `first` on,
    into out[row]; returns the sum of the squares of what each of them adds."""
    numbers = first + feature[start:stop].astype(np.int64)
    out[row, at : at + LANES], squares = _walk(V, numbers.tolist(), value[start:stop].tolist(), at)
    return added_up(squares)


def pairs_lanes(
    V: RealArray, first: int, x: FeatureArray, base: RealArray, halves: RealArray, j: int, pull: RealArray, at: int
) -> float:
    """A sample's pull: of the person (base[0]), of place j (halves[j]) and of features first, first + 1, ... with
    values x, into pull[0]; returns the sum of its squares, less those of what each of the features adds."""
    total, squares = _walk(V, range(first, first + x.size), x.tolist(), at)
    here = slice(at, at + LANES)
    pull[0, here] = (base[0, here] + halves[j, here]) + total
    return added_up(pull[0, here] * pull[0, here] - squares)


def _walk(V: RealArray, rows: Iterable[int], values: Iterable[float], at: int) -> tuple[RealArray, RealArray]:
    """The sum of V[row] x, and of its squares."""
    total, squares = np.zeros(LANES), np.zeros(LANES)
    for row, x in zip(rows, values, strict=True):
        term = V[row, at : at + LANES] * x
        total += term
        squares += term * term
    return total, squares


def _emit_walk(builder: Any, V: Any, at: Any, span: tuple[Any, Any], row: Number, value: Number) -> tuple[Any, Any]:
    total, squares = (start_at(builder, vector(LANES, 0.0)) for _ in range(2))
    with each(builder, *span) as entry:
        x = spread(builder, value(entry), LANES)
        term = builder.fmul(read(builder, V, cell(builder, V, row(entry), at), LANES), x)
        add_to(builder, total, term)
        add_to(builder, squares, builder.fmul(term, term))
    return builder.load(total), builder.load(squares)


@compiles(pull_of_entries, types.float64, writes=["out"], indices=["feature"])
def _emit_entries(
    builder: Any, V: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, out: Any, row: Any, at: Any
) -> Any:
    total, squares = _emit_walk(
        builder, V, at, (start, stop),
        lambda entry: builder.add(first, number(builder, feature, entry)),
        lambda entry: number(builder, value, entry),
    )  # fmt: skip
    write(builder, out, cell(builder, out, row, at), total)
    return ir_sum(builder, squares)


@compiles(pairs_lanes, types.float64, writes=["pull"])
def _emit_pairs(builder: Any, V: Any, first: Any, x: Any, base: Any, halves: Any, j: Any, pull: Any, at: Any) -> Any:
    span = word(0), builder.extract_value(x.shape, 0)
    total, squares = _emit_walk(
        builder, V, at, span, lambda entry: builder.add(first, entry), lambda entry: number(builder, x, entry)
    )
    half = read(builder, halves, cell(builder, halves, j, at), LANES)
    whole = builder.fadd(builder.fadd(read(builder, base, at, LANES), half), total)
    write(builder, pull, at, whole)
    return ir_sum(builder, builder.fsub(builder.fmul(whole, whole), squares))


# The gradient of V in rows of whole lanes (D, L), of which one person touches a few: components at, ..., at + 7.


def collect_features(
    V: RealArray, first: int, x: FeatureArray, much: float, pull: RealArray, G: RealArray, at: int
) -> None:
    """Eq. (4) without lambda_v, for features first, first + 1, ...: G[d] += much x_d (pull - V[d] x_d)."""
    here = slice(at, at + LANES)
    for d, value in enumerate(x.tolist(), start=first):
        G[d, here] += (much * value) * (pull[0, here] - V[d, here] * value)


def collect_entries(
    V: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, much: float,
    pull: RealArray, own: float, G: RealArray, at: int,
) -> None:  # fmt: skip
    """The same for entries start to stop of features that stand from row `first` on, and for several records in one:
    G[d] += much x_d (pull - V[d] own x_d)."""
    here = slice(at, at + LANES)
    for d, x in zip((first + feature[start:stop]).tolist(), value[start:stop].tolist(), strict=True):
        G[d, here] += (much * x) * (pull[0, here] - V[d, here] * (own * x))


def add_row(total: RealArray, row: RealArray, much: float, at: int) -> None:
    """total[0] += much row[0]"""
    here = slice(at, at + LANES)
    total[0, here] += much * row[0, here]


def square_of_rows(G: RealArray, touched: IndexArray, many: int, at: int) -> float:
    """The sum of the squares of the first `many` rows touched, in sixteen interleaved sums."""
    sums = np.zeros((2, LANES))
    for place, d in enumerate(touched[:many].tolist()):
        row = G[d, at : at + LANES]
        sums[place % 2 if place < many // 2 * 2 else 0] += row * row
    return added_up(sums[0] + sums[1])


def take_rows(
    G: RealArray, noted: IndexArray, touched: IndexArray, many: int, factor: float, out: RealArray, at: int
) -> None:
    """The first `many` rows touched, times the factor, one after the other into `out`; G and `noted` are 0 again."""
    here = slice(at, at + LANES)
    for place, d in enumerate(touched[:many].tolist()):
        start = place * G.shape[1] + at
        out[start : start + LANES] = factor * G[d, here]
        G[d, here] = 0.0
        noted[d] = 0


def add_rows_at(total: RingArray, touched: IndexArray, many: int, values: RingArray, at: int) -> None:
    """Row after row of `values` (many * L,) to the rows of `total` (D, L) that are touched, in the ring."""
    for place, d in enumerate(touched[:many].tolist()):
        start = place * total.shape[1] + at
        total[d, at : at + LANES] += values[start : start + LANES]


def _emit_row(builder: Any, V: Any, d: Any, much: Any, pull: Any, own: Any, G: Any, at: Any) -> None:
    """G[d] += much (pull - V[d] own)"""
    where = cell(builder, G, d, at)
    part = builder.fmul(read(builder, V, where, LANES), spread(builder, own, LANES))
    more = builder.fmul(spread(builder, much, LANES), builder.fsub(pull, part))
    write(builder, G, where, builder.fadd(read(builder, G, where, LANES), more))


@compiles(collect_features, writes=["G"])
def _emit_features(builder: Any, V: Any, first: Any, x: Any, much: Any, pull: Any, G: Any, at: Any) -> None:
    wide = read(builder, pull, at, LANES)
    with each(builder, word(0), builder.extract_value(x.shape, 0)) as entry:
        value = number(builder, x, entry)
        _emit_row(builder, V, builder.add(first, entry), builder.fmul(much, value), wide, value, G, at)


@compiles(collect_entries, writes=["G"], indices=["feature"])
def _emit_entries_row_lanes(
    builder: Any, V: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, much: Any, pull: Any, own: Any,
    G: Any, at: Any,
) -> None:  # fmt: skip
    wide = read(builder, pull, at, LANES)
    with each(builder, start, stop) as entry:
        d, x = builder.add(first, number(builder, feature, entry)), number(builder, value, entry)
        _emit_row(builder, V, d, builder.fmul(much, x), wide, builder.fmul(own, x), G, at)


@compiles(add_row, writes=["total"])
def _emit_add_row(builder: Any, total: Any, row: Any, much: Any, at: Any) -> None:
    more = builder.fmul(spread(builder, much, LANES), read(builder, row, at, LANES))
    write(builder, total, at, builder.fadd(read(builder, total, at, LANES), more))


@compiles(square_of_rows, types.float64, indices=["touched"])
def _emit_square(builder: Any, G: Any, touched: Any, many: Any, at: Any) -> Any:
    sums = [start_at(builder, vector(LANES, 0.0)) for _ in range(2)]
    pairs = builder.udiv(many, word(2))

    def add_square(total: Any, place: Any) -> None:
        row = read(builder, G, cell(builder, G, number(builder, touched, place), at), LANES)
        add_to(builder, total, builder.fmul(row, row))

    with each(builder, word(0), pairs) as pair:
        first = builder.mul(pair, word(2))
        add_square(sums[0], first)
        add_square(sums[1], builder.add(first, word(1)))
    with each(builder, builder.mul(pairs, word(2)), many) as last:
        add_square(sums[0], last)
    return ir_sum(builder, builder.fadd(*(builder.load(total) for total in sums)))


@compiles(take_rows, writes=["G", "noted", "out"], indices=["noted", "touched"])
def _emit_take(builder: Any, G: Any, noted: Any, touched: Any, many: Any, factor: Any, out: Any, at: Any) -> None:
    wide = spread(builder, factor, LANES)
    with each(builder, word(0), many) as place:
        d = number(builder, touched, place)
        where = cell(builder, G, d, at)
        scaled = builder.fmul(wide, read(builder, G, where, LANES))
        write(builder, out, cell(builder, G, place, at), scaled)
        write(builder, G, where, vector(LANES, 0.0))
        put(builder, noted, d, word(0))


@compiles(add_rows_at, writes=["total"], indices=["touched"], words=["total", "values"])
def _emit_add(builder: Any, total: Any, touched: Any, many: Any, values: Any, at: Any) -> None:
    with each(builder, word(0), many) as place:
        where = cell(builder, total, number(builder, touched, place), at)
        more = read(builder, values, cell(builder, total, place, at), LANES)
        write(builder, total, where, builder.add(read(builder, total, where, LANES), more))


# Features of which most are 0, as entries: which feature, and its value. What a linear model makes of them.


def entries_score(w: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int) -> float:
    """The sum of w[first + d] x_d over entries start to stop."""
    total = 0.0
    for e in range(start, stop):
        total += float(w[first + feature[e]]) * float(value[e])
    return total


def add_entries(
    w: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, much: float
) -> None:
    """w[first + d] += much x_d, for entries start to stop."""
    for e in range(start, stop):
        w[first + feature[e]] += much * float(value[e])


def note_entries(
    feature: IndexArray, start: int, stop: int, first: int, noted: IndexArray, touched: IndexArray, many: int
) -> int:
    """Adds first + d to the `many` numbers in `touched`, unless it is noted that they are there; returns how many there
    are then. Without a branch, which would have to be guessed; `touched` needs room for one more than it holds."""
    for e in range(start, stop):
        d = first + feature[e]
        touched[many] = d
        many += 1 - int(noted[d])
        noted[d] = 1
    return many


def note_present(x: FeatureArray, feature: IndexArray, value: RealArray) -> int:
    """The features that are not 0 as entries; returns how many there are. Room for one more is needed."""
    many = 0
    for d in range(x.size):
        feature[many], value[many] = d, x[d]
        many += int(x[d] != 0.0)
    return many


@compiles(entries_score, types.float64, indices=["feature"])
def _emit_score(builder: Any, w: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any) -> Any:
    total = start_at(builder, REAL(0.0))
    with each(builder, start, stop) as entry:
        own = number(builder, w, builder.add(first, number(builder, feature, entry)))
        add_to(builder, total, builder.fmul(own, number(builder, value, entry)))
    return builder.load(total)


@compiles(add_entries, writes=["w"], indices=["feature"])
def _emit_add_entries(
    builder: Any, w: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, much: Any
) -> None:
    with each(builder, start, stop) as entry:
        to = builder.add(first, number(builder, feature, entry))
        more = builder.fmul(much, number(builder, value, entry))
        put(builder, w, to, builder.fadd(number(builder, w, to), more))


@compiles(note_entries, types.intp, writes=["noted", "touched"], indices=["feature", "noted", "touched"])
def _emit_note(
    builder: Any, feature: Any, start: Any, stop: Any, first: Any, noted: Any, touched: Any, many: Any
) -> Any:
    count = start_at(builder, many)
    with each(builder, start, stop) as entry:
        d, now = builder.add(first, number(builder, feature, entry)), builder.load(count)
        put(builder, touched, now, d)
        new = builder.sub(word(1), number(builder, noted, d))
        builder.store(builder.add(now, new), count)
        put(builder, noted, d, word(1))
    return builder.load(count)


@compiles(note_present, types.intp, writes=["feature", "value"], indices=["feature"])
def _emit_present(builder: Any, x: Any, feature: Any, value: Any) -> Any:
    count = start_at(builder, word(0))
    with each(builder, word(0), builder.extract_value(x.shape, 0)) as d:
        now, own = builder.load(count), number(builder, x, d)
        put(builder, feature, now, d)
        put(builder, value, now, own)
        there = builder.fcmp_unordered("!=", own, REAL(0.0))
        builder.store(builder.add(now, builder.zext(there, WORD)), count)
    return builder.load(count)


# Calling memory up before it is needed. A hint to the processor: no result changes, no address is refused.
#
# A shuffled sample's features, model and neighbours lie all over memory. Waiting for them, one after the other, took a
# third of a pass; called up a few samples ahead, they are there.


_READ, _KEEP, _DATA = 0, 3, 1  # llvm.prefetch: to be read, near the processor, not instructions


def prefetch(array: Any, byte: int) -> None:
    """Calls up the line in which this byte of a contiguous array stands; without a compiler, nothing."""


def _emit(_typing: Any, array: Any, byte: Any) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        where = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        start = builder.bitcast(where, ir.IntType(8).as_pointer())
        line, number = builder.gep(start, [arguments[1]]), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [line.type, number, number, number])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
        builder.call(hint, [line, number(_READ), number(_KEEP), number(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


_prefetch: Any = intrinsic(_emit)


def _compiled(array: Any, byte: Any) -> Any:
    def call_up(array: Any, byte: Any) -> Any:  # numba asks for the very same signature
        _prefetch(array, byte)

    return call_up


overload(prefetch, inline="always")(_compiled)


@inlined
def call_entry(values: Any, at: int) -> None:
    """values[at] and what stands next to it."""
    prefetch(values, at * values.itemsize)


@inlined
def call_row(table: Any, row: int) -> None:
    """table[row], all of it."""
    width = table.shape[1] * table.itemsize
    for byte in range(row * width, (row + 1) * width, LINE):
        prefetch(table, byte)
    if width > 0:
        prefetch(table, (row + 1) * width - 1)  # a row may end in a line of its own
