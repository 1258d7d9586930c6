"""Vector instructions for the primitives of model/lanes.py, in functions of the same names.

The one file that writes LLVM's instructions, through Numba's interface for extensions. It is imported when a kernel is
compiled that is not in the cache, and never where the environment variable PRIREC_SIMD is 0.
"""

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

from prirec.model import lanes
from prirec.model.lanes import Eight, number, put
from prirec.util.jit import inlined, kernel

_REALS, _ALIGN = (types.float32, types.float64), 4  # bytes: a vector may begin at any float32
_INDEX = ir.IntType(32)
_intrinsic: Any = intrinsic  # without Numba's annotations, which are wrong where they exist
_emitting: Any = cgutils
_kinds: Any = types
_READ, _NEAR, _DATA = 0, 3, 1  # llvm.prefetch: to be read, near the processor, not instructions


class Vector(types.Type):
    """Some float64 or uint64 side by side, in registers of the processor."""

    def __init__(self, dtype: Any, count: int) -> None:
        self.dtype, self.count = dtype, count
        super().__init__(name=f"Vector({dtype}, {count})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        element = manager.lookup(vector.dtype).get_value_type()
        super().__init__(  # type: ignore[no-untyped-call]
            manager, vector, ir.VectorType(element, vector.count)
        )


# Instructions: each function is asked for types and returns a signature, with what emits the instructions


def _instruction(typed: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = _intrinsic(typed)
    return made


def _check(array: Any, *, written: bool = False) -> None:
    """Vectors are read straight from memory, so their numbers must stand next to each other there."""
    kinds = (*_REALS, types.uint64)
    if not isinstance(array, types.Array) or array.layout != "C" or not array.aligned or array.dtype not in kinds:
        raise TypingError(f"vectors need contiguous arrays of {', '.join(map(str, kinds))}, not {array}")
    if written and (not array.mutable or array.dtype == types.float32):
        raise TypingError("vectors are written to arrays that may be written to, and reals to float64")


def _place(context: Any, builder: Any, kind: Any, array: Any, where: Any, count: int) -> Any:
    """Where in memory the vector from the number `where` of the array on stands."""
    first = builder.gep(context.make_array(kind)(context, builder, array).data, [where])
    return builder.bitcast(first, ir.VectorType(first.type.pointee, count).as_pointer())


def _reading(count: int) -> Any:
    @_instruction
    def read_at(_typing: Any, array: Any, where: Any) -> Any:
        """Numbers where, where + 1, ... of an array; reals as float64."""
        _check(array)
        vector = Vector(types.float64 if array.dtype in _REALS else array.dtype, count)

        def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            found = builder.load(_place(context, builder, signature.args[0], given[0], given[1], count), align=_ALIGN)
            wanted = context.get_value_type(vector)
            return found if found.type == wanted else builder.fpext(found, wanted)

        return vector(array, types.intp), emit

    return read_at


def _spreading(count: int) -> Any:
    @_instruction
    def spread_over(_typing: Any, _value: Any) -> Any:
        vector = Vector(types.float64, count)

        def emit(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            nothing = ir.Constant(context.get_value_type(vector), ir.Undefined)
            first = builder.insert_element(nothing, given[0], _INDEX(0))
            return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INDEX, count), [0] * count))

        return vector(types.float64), emit

    return spread_over


def _combining(for_reals: str, for_words: str) -> Any:
    @_instruction
    def combine(_typing: Any, a: Any, b: Any) -> Any:
        if not isinstance(a, Vector) or a != b:
            raise TypingError(f"not vectors of one kind: {a}, {b}")
        name = for_reals if a.dtype == types.float64 else for_words
        return a(a, b), lambda _context, builder, _signature, given: getattr(builder, name)(*given)

    return combine


@_instruction
def _write_at(_typing: Any, array: Any, where: Any, vector: Any) -> Any:
    _check(array, written=True)
    if vector.dtype != array.dtype:
        raise TypingError(f"{vector} cannot be written to {array}")

    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _place(context, builder, signature.args[0], given[0], given[1], vector.count)
        builder.store(given[2], place, align=_ALIGN)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), emit


@_instruction
def _numbers(_typing: Any, vector: Any) -> Any:
    """A vector as a tuple."""

    def emit(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        return _emitting.pack_array(
            builder, [builder.extract_element(given[0], _INDEX(at)) for at in range(vector.count)]
        )

    return _kinds.UniTuple(vector.dtype, vector.count)(vector), emit


@_instruction
def _sum_by_halves(_typing: Any, vector: Any) -> Any:
    def emit(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
        of, count = given[0], vector.count
        while count > 1:
            count //= 2
            of = builder.fadd(*(_part(builder, of, range(at, at + count)) for at in (0, count)))
        return builder.extract_element(of, _INDEX(0))

    return types.float64(vector), emit


def _part(builder: Any, of: Any, numbers: range) -> Any:
    return builder.shuffle_vector(of, of, ir.Constant(ir.VectorType(_INDEX, len(numbers)), list(numbers)))


@_instruction
def _prefetch(_typing: Any, array: Any, _byte: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, given[0]).data
        line = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [given[1]])
        kind = ir.FunctionType(ir.VoidType(), [line.type, _INDEX, _INDEX, _INDEX])
        hint = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
        builder.call(hint, [line, _INDEX(_READ), _INDEX(_NEAR), _INDEX(_DATA)])
        return context.get_dummy_value()

    return types.void(array, types.intp), emit


_read4, _read8, _spread4, _spread8 = _reading(4), _reading(8), _spreading(4), _spreading(8)
_plus, _minus, _times = _combining("fadd", "add"), _combining("fsub", "sub"), _combining("fmul", "mul")


# The primitives


@inlined
def read(table: Any, row: int, at: int) -> Eight:
    return _read8(table, row * table.shape[1] + at)


@inlined
def write(table: Any, row: int, at: int, values: Eight) -> None:
    _write_at(table, row * table.shape[1] + at, values)


@inlined
def read_flat(values: Any, first: int) -> Eight:
    return _read8(values, first)


@inlined
def write_flat(values: Any, first: int, eight: Eight) -> None:
    _write_at(values, first, eight)


@inlined
def spread(value: float) -> Eight:
    return _spread8(value)


@inlined
def plus(a: Eight, b: Eight) -> Eight:
    return _plus(a, b)


@inlined
def minus(a: Eight, b: Eight) -> Eight:
    return _minus(a, b)


@inlined
def times(a: Eight, b: Eight) -> Eight:
    return _times(a, b)


@inlined
def sum_of(values: Eight) -> float:
    return float(_sum_by_halves(values))


@inlined
def dot(w: Any, first: int, x: Any) -> float:
    sums, fours = _spread4(0.0), x.size >> 2
    for four in range(fours):
        sums = _plus(sums, _times(_read4(w, first + 4 * four), _read4(x, 4 * four)))
    s0, s1, s2, s3 = _numbers(sums)
    for d in range(4 * fours, x.size):
        s0 += number(w, first + d) * number(x, d)
    return float((s0 + s1) + (s2 + s3))


@inlined
def add_times(out: Any, first: int, x: Any, much: float) -> None:
    wide, fours = _spread4(much), x.size >> 2
    for four in range(fours):
        to = first + 4 * four
        _write_at(out, to, _plus(_read4(out, to), _times(wide, _read4(x, 4 * four))))
    for d in range(4 * fours, x.size):
        put(out, first + d, number(out, first + d) + much * number(x, d))


@inlined
def prefetch(array: Any, byte: int) -> None:
    _prefetch(array, byte)


# Whether this version of Numba compiles them


def works() -> bool:
    """Whether all of them together give what the plain loops in model/lanes.py give, to the last bit."""
    twins = {name: getattr(lanes, name).__wrapped__ for name in _trial.__code__.co_names if hasattr(lanes, name)}
    answers = []
    for trial in (kernel(_trial), np.errstate(over="ignore")(FunctionType(_trial.__code__, twins))):
        table, words = np.linspace(-0.7, 1.3, 32).reshape(2, 16), np.arange(2**63 - 4, 2**63 + 12, dtype=np.uint64)
        numbers = words.reshape(2, 8)
        found = trial(table, table[0], numbers, np.float64(0.3))
        answers.append((float(found), table.tobytes(), numbers.tobytes()))
    return answers[0] == answers[1]


def _trial(table: Any, x: Any, words: Any, much: float) -> float:
    prefetch(table, 8)
    write(words, 0, 0, plus(minus(read(words, 0, 0), read(words, 1, 0)), times(read(words, 1, 0), read(words, 0, 0))))
    eight = plus(times(read(table, 0, 8), spread(much)), minus(read(table, 1, 0), read(table, 1, 8)))
    write(table, 1, 8, eight)
    add_times(table[1], 2, x[:9], much)
    return sum_of(eight) + dot(table[1], 1, x[:11])
