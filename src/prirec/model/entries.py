"""Features of which most are 0, as entries: which feature, and its value. What a linear model makes of them."""

from typing import Any

from numba import types

from prirec.model import lane_code as emit
from prirec.types import FeatureArray, IndexArray, RealArray, ValueArray


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


@emit.compiles(entries_score, types.float64, indices=["feature"])
def _emit_score(builder: Any, w: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any) -> Any:
    total = emit.start_at(builder, emit.REAL(0.0))
    with emit.each(builder, start, stop) as entry:
        own = emit.number(builder, w, builder.add(first, emit.number(builder, feature, entry)))
        emit.add_to(builder, total, builder.fmul(own, emit.number(builder, value, entry)))
    return builder.load(total)


@emit.compiles(add_entries, writes=["w"], indices=["feature"])
def _emit_add(builder: Any, w: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, much: Any) -> None:
    with emit.each(builder, start, stop) as entry:
        to = builder.add(first, emit.number(builder, feature, entry))
        more = builder.fmul(much, emit.number(builder, value, entry))
        emit.put(builder, w, to, builder.fadd(emit.number(builder, w, to), more))


@emit.compiles(note_entries, types.intp, writes=["noted", "touched"], indices=["feature", "noted", "touched"])
def _emit_note(
    builder: Any, feature: Any, start: Any, stop: Any, first: Any, noted: Any, touched: Any, many: Any
) -> Any:
    count = emit.start_at(builder, many)
    with emit.each(builder, start, stop) as entry:
        d, now = builder.add(first, emit.number(builder, feature, entry)), builder.load(count)
        emit.put(builder, touched, now, d)
        new = builder.sub(emit.word(1), emit.number(builder, noted, d))
        builder.store(builder.add(now, new), count)
        emit.put(builder, noted, d, emit.word(1))
    return builder.load(count)


@emit.compiles(note_present, types.intp, writes=["feature", "value"], indices=["feature"])
def _emit_present(builder: Any, x: Any, feature: Any, value: Any) -> Any:
    count = emit.start_at(builder, emit.word(0))
    with emit.each(builder, emit.word(0), builder.extract_value(x.shape, 0)) as d:
        now, own = builder.load(count), emit.number(builder, x, d)
        emit.put(builder, feature, now, d)
        emit.put(builder, value, now, own)
        there = builder.fcmp_unordered("!=", own, emit.REAL(0.0))
        builder.store(builder.add(now, builder.zext(there, emit.WORD)), count)
    return builder.load(count)
