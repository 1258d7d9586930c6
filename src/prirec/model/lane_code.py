"""Vector instructions, written down: what lanes.py, pull_lanes.py, row_lanes.py and entries.py are compiled to.

Left to itself, the compiler asks at every short loop whether arrays overlap and how many turns there are; at a few
turns a loop, that was much of what a round did."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from prirec.compiled import UNCOUNTED

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


def added_up(builder: Any, of: Any) -> Any:
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
