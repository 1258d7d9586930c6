"""Fetching memory before it is needed: a hint to the processor, which changes no result.

A shuffled sample's features, model and neighbours lie all over memory. Waiting for them, one after the other, took a
third of a pass; fetched a few samples ahead, they are there.
"""

from collections.abc import Callable
from typing import Any

from prirec.util.jit import inlined, instruction

LINE = 64  # bytes that memory hands over together
_READ, _NEAR, _DATA = 0, 3, 1  # llvm.prefetch: to be read, near the processor, not instructions


def _llvm_prefetch() -> Callable[..., Any]:
    """A function for kernels that emits LLVM's instruction, through Numba's interface for extensions."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    made: Any = intrinsic  # without Numba's annotations, which are wrong where they exist

    @made  # type: ignore[untyped-decorator]
    def fetch(_typing: Any, array: Any, _byte: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, given[0]).data
            line = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [given[1]])
            index = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [line.type, index, index, index])
            hint = builder.module.declare_intrinsic("llvm.prefetch", [line.type], kind)
            builder.call(hint, [line, index(_READ), index(_NEAR), index(_DATA)])
            return context.get_dummy_value()

        return types.void(array, types.intp), emit

    def prefetch(array: Any, byte: int) -> None:
        fetch(array, byte)

    return prefetch


@instruction(_llvm_prefetch, signature="void(float64[::1], intp)")
def prefetch(array: Any, byte: int) -> None:
    """Fetches the line with this byte of a contiguous array; nothing, where Numba does not compile the instruction."""


@inlined
def prefetch_entry(values: Any, at: int) -> None:
    """values[at] and what lies next to it."""
    prefetch(values, at * values.itemsize)


@inlined
def prefetch_row(table: Any, row: int) -> None:
    """table[row], all of it."""
    width = table.shape[1] * table.itemsize
    for byte in range(row * width, (row + 1) * width, LINE):
        prefetch(table, byte)
    if width > 0:
        prefetch(table, (row + 1) * width - 1)  # a row may end in a line of its own
