"""How a kernel is compiled: cached on disk, without the interpreter lock, and never with fastmath.

fastmath would let the compiler reorder sums, and two engines would no longer agree bit for bit.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.cpu import CPUTargetOptions

# no counting of references; with a Numba that does not know the option all is right, and slower
UNCOUNTED: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compiles a function whose annotations say what it takes; they are for readers and for mypy only."""
    return cast(Function, _compile(function))


def lean_kernel(function: Function) -> Function:
    """A kernel that asks for no memory. What it is given outlives it, so nobody has to count who uses which array: the
    counting took a quarter of a round, and threads waited for each other's counts. It returns numbers, never an array,
    and calls only what is inlined or has signatures: whoever counts would lose count."""
    return cast(Function, _compile(function, **UNCOUNTED))


def inlined(function: Function) -> Function:
    """A lean kernel that becomes part of whatever calls it: a call would hand over each array of each tuple."""
    return cast(Function, _compile(function, forceinline=True, **UNCOUNTED))


def kernel_for(*signatures: str) -> Callable[[Function], Function]:
    """A kernel for these signatures only. Give them to whatever Python calls with a 64-bit word: left to itself, numba
    reads an int as int64 and then refuses the half of all words from 2^63 on."""

    def compile_it(function: Function) -> Function:
        return cast(Function, _compile(function, list(signatures)))

    return compile_it


def _compile(function: Callable[..., Any], signatures: list[str] | None = None, **options: Any) -> object:
    try:
        return njit(signatures, cache=True, nogil=True, **options)(function)
    except RuntimeError:  # nowhere to keep a cache: a read-only installation without a home
        return njit(signatures, nogil=True, **options)(function)
