"""Kernels: functions that Numba compiles at their first call, without the interpreter lock and never with fastmath.

fastmath would let the compiler reorder sums, and two engines would no longer agree bit for bit. Importing a module of
kernels does not import Numba, which takes longer than most commands that need no kernel. What has been compiled is
kept on disk, see `cache_folder`.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, update_wrapper
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryFile
from typing import Any, TypeVar, cast

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGE = Path(__file__).parents[1]
UNUSED_DAYS = 30  # after which compiled kernels of other sources are deleted from a cache that installations share
_CACHED = {"cache": True, "nogil": True}
_LEAN = {**_CACHED, "lean": True}
_INLINED = {**_LEAN, "forceinline": True}
_WRITTEN_OUT = {**_CACHED, "inline": "always"}


def kernel(function: Function) -> Function:
    """Compiles a function for whatever it is called with; its annotations are for readers and for mypy only."""
    return cast(Function, Kernel(function, _CACHED))


def lean_kernel(function: Function) -> Function:
    """A kernel that allocates no memory. What it is given outlives it, so no references need to be counted: counting
    took a quarter of a round, and threads waited for each other's counts. It returns numbers, never an array, and calls
    only what is inlined or has signatures: a callee that does count would lose count."""
    return cast(Function, Kernel(function, _LEAN))


def inlined(function: Function) -> Function:
    """A lean kernel that becomes part of whatever calls it: a call would hand over each array of each tuple."""
    return cast(Function, Kernel(function, _INLINED))


def written_out(function: Function) -> Function:
    """A kernel that Numba puts in the place of each call before it compiles the caller. The compiler then turns loops
    over many elements into vector instructions, which it does not where a call is inlined later. For short functions:
    each call compiles them once more."""
    return cast(Function, Kernel(function, _WRITTEN_OUT))


def kernel_for(*signatures: str) -> Callable[[Function], Function]:
    """A kernel for these signatures only. Needed by whatever Python calls with a 64-bit word: left to itself, Numba
    reads an int as int64 and then refuses the half of all words from 2^63 on."""

    def decorate(function: Function) -> Function:
        return cast(Function, Kernel(function, _CACHED, signatures=signatures))

    return decorate


def instruction(make: Callable[[], Callable[..., Any]], *, signature: str) -> Callable[[Function], Function]:
    """An inlined kernel, for which kernels get what `make` returns instead, where that compiles for this signature. It
    emits an instruction of the processor through parts of Numba that a new version may change: then the function itself
    is compiled, results are the same, and a RuntimeWarning tells of it once."""

    def decorate(function: Function) -> Function:
        return cast(Function, Kernel(function, _INLINED, signatures=(signature,), make=make))

    return decorate


_in_numpy = ContextVar("kernels are not compiled", default=False)


@contextmanager
def in_numpy() -> Iterator[None]:
    """Kernels that are called in this context run as they are written, or as `numpy_of` has it, and Numba is not
    loaded. For one person on a device: to load a compiler takes ten times as long as to learn from their records."""
    token = _in_numpy.set(True)
    try:
        with np.errstate(over="ignore"):  # as in compiled code
            yield
    finally:
        _in_numpy.reset(token)


def numpy_of(of: Callable[..., Any]) -> Callable[[Function], Function]:
    """What computes the same as a kernel by whole arrays, for `in_numpy`: the loops of a kernel are slow there."""

    def decorate(function: Function) -> Function:
        cast(Kernel, of).run_in_numpy(function)
        return function

    return decorate


class Kernel:
    """A function that is compiled when it is first called, or when a kernel that calls it is compiled."""

    def __init__(
        self, function: Callable[..., Any], options: dict[str, Any], *, signatures: tuple[str, ...] = (),
        make: Callable[[], Callable[..., Any]] | None = None,
    ) -> None:  # fmt: skip
        update_wrapper(self, function)
        self._function, self._options, self._signatures = function, options, signatures
        self._make, self._dispatcher = make, None
        self._plain = function

    def __call__(self, *args: Any) -> Any:
        return self._plain(*args) if _in_numpy.get() else self.dispatcher(*args)

    def run_in_numpy(self, function: Callable[..., Any]) -> None:
        self._plain = function

    @property
    def dispatcher(self) -> Any:
        """Numba's object, which has compiled nothing yet unless there are signatures."""
        # No lock of our own: Numba holds one while it compiles and comes here for each callee, so that two threads
        # could wait for each other for ever. At worst both make a dispatcher, and the second one stays.
        if self._dispatcher is None:
            self._dispatcher = self._made()
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks of a global that it does not know, here a kernel which is called by another one."""
        return self.dispatcher._numba_type_

    def __getattr__(self, name: str) -> Any:
        """`py_func`, `signatures`, `inspect_asm` and so on are the dispatcher's."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def _made(self) -> Any:
        if self._make is not None:
            return self._emitted(self._make) or _dispatcher(self._function, self._options)
        dispatcher = _dispatcher(self._function, self._options)
        if self._signatures and hasattr(dispatcher, "compile"):  # not where NUMBA_DISABLE_JIT is set
            for signature in self._signatures:
                dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    def _emitted(self, make: Callable[[], Callable[..., Any]]) -> Any:
        """Machine code of this kernel; None where it does not compile."""
        import numba

        config: Any = numba.config
        if config.DISABLE_JIT:
            return None
        try:
            # not kept on disk: what Numba makes of an instruction is another object in every process
            dispatcher = _dispatcher(make(), {**self._options, "cache": False})
            for signature in self._signatures:
                dispatcher.compile(signature)
        except Exception as error:  # whatever it is that a compiler under change raises
            warnings.warn(
                f"{self._function.__name__} is not used with this Numba ({numba.__version__}): it raises "
                f"{type(error).__name__}. Results are the same, training by the paper's schedule takes longer",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        return dispatcher


def _dispatcher(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    from numba import njit
    from numba.core.cpu import CPUTargetOptions

    known = {name: value for name, value in options.items() if name != "lean"}
    # no counting of references; with a Numba that does not know the option all is right, and slower
    if options.get("lean") and hasattr(CPUTargetOptions, "_nrt"):
        known["_nrt"] = False
    with _caching_in(cache_folder(Path(function.__code__.co_filename).parent)):
        try:
            return njit(**known)(function)
        except RuntimeError:  # no file that Numba could keep beside the source, as in an interactive session
            return njit(**{**known, "cache": False})(function)


# Where compiled kernels are kept


@cache
def cache_folder(sources: Path = PACKAGE) -> Path | None:
    """Where compiled kernels of these sources are kept: the first of these that can be written to, or None, and then
    kernels are compiled at every start. NUMBA_CACHE_DIR, if that is set; `__pycache__` of the package; the user's cache
    folder, such as `~/.cache/prirec`.

    In it, each state of the sources has a folder of its own: Numba would notice that a kernel has changed, but not that
    a kernel which it calls has changed. Folders of other states are deleted: beside the package at once, elsewhere when
    nobody has used them for UNUSED_DAYS, since other installations may share the folder."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = PACKAGE / "__pycache__"
    state = f"kernels-{_hash_of(PACKAGE.rglob('*.py'))}"
    # experiments and tests, whose kernels also call the package's
    parts = [] if sources.is_relative_to(PACKAGE) else [_hash_of(sources.glob("*.py"))]
    for folder in [Path(given).absolute()] if given else [beside, _user_cache()]:
        if not folder.is_absolute():  # a home that nobody knows is "~": nothing is written beside the working folder
            continue
        with suppress(OSError):
            kept = folder.joinpath(state, *parts)
            kept.mkdir(parents=True, exist_ok=True)
            TemporaryFile(dir=kept).close()  # a folder may exist and still be read-only
            os.utime(folder / state)  # in use: see _delete_others
            _delete_others(folder, state, unused_days=0 if folder == beside else UNUSED_DAYS)
            return kept
    return None


def _user_cache() -> Path:
    """Where programs keep what they can make again, by the customs of each system."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  (Path.home raises where there is none)
    if sys.platform == "win32":
        caches = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        caches = home / "Library" / "Caches"
    else:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return caches / "prirec"


def _hash_of(files: Iterable[Path]) -> str:
    """Hash of the files that have kernels."""
    digest = blake2b(digest_size=8)
    for path in sorted(files):
        source = path.read_bytes()
        if b"util.jit import" in source or path == Path(__file__):
            digest.update(b"%d %s" % (len(source), source))
    return digest.hexdigest()


def _delete_others(folder: Path, state: str, *, unused_days: int) -> None:
    """A process that still runs the older sources makes its folder again when it saves the next kernel."""
    now = (folder / state).stat().st_mtime  # it was touched just before
    for other in folder.glob("kernels-*"):
        with suppress(OSError):  # another process may delete it at the same time
            unused = now - other.stat().st_mtime
            if other.name != state and (not unused_days or unused > unused_days * 86_400):
                rmtree(other, ignore_errors=True)


@contextmanager
def _caching_in(folder: Path | None) -> Iterator[None]:
    """Numba looks at its setting when a dispatcher is made. Other libraries in this process keep theirs: its lock keeps
    two threads from taking each other's setting for the one to restore."""
    import numba
    from numba.core.compiler_lock import global_compiler_lock

    config: Any = numba.config
    with global_compiler_lock:
        before = config.CACHE_DIR
        config.CACHE_DIR = "" if folder is None else str(folder)
        try:
            yield
        finally:
            config.CACHE_DIR = before
