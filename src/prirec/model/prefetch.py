"""Calling memory up before it is needed. A hint to the processor: no result changes, no address is refused.

A shuffled sample's features, model and neighbours lie all over memory. Waiting for them, one after the other, took a
third of a pass; called up a few samples ahead, they are there.
"""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, overload

from prirec.compiled import inlined
from prirec.model.lanes import LINE

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
