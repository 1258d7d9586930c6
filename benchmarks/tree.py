"""Figures about the source tree: how many files and lines, and how many files one visit and one gradient pass through.

    python benchmarks/tree.py [--trace] [--files]

Without --trace it only reads the tree. With it, two runs are traced: a small city is trained and one person gets
recommendations; and one campaign of two rounds runs over HTTPS on this machine. A file counts for a run if a function
of its own is executed; compiled kernels do not show, but the Python functions that call them do. The processes in which
devices compute their contributions count too. --files also lists the files, in the order in which they were first
executed.
"""

import argparse
import ast
import asyncio
import atexit
import collections
import inspect
import io
import os
import sys
import threading
import tokenize
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import prirec

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "prirec": ROOT / "src" / "prirec",
    "prirec_experiments": ROOT / "experiments" / "src" / "prirec_experiments",
}
SMALL = 60
PEOPLE, DEVICES = 300, 6
SILENCE = 10.0  # seconds for a contribution: all devices share this machine, and two seconds are for one
HELPER = "helper of a device"  # names of the threads in which the devices' event loop waits
SKIPPED = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Lines that hold code: no blank lines, comments, docstrings or imports."""
    tree, left_out = ast.parse(text), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            left_out |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                left_out |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in SKIPPED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - left_out)


def comment_lines(text: str) -> int:
    """Lines that hold a comment and nothing else."""
    return sum(line.lstrip().startswith("#") for line in text.splitlines())


def modules(package: str) -> dict[str, Path]:
    """Module names of a package, with their files."""
    base = PACKAGES[package]
    found = {}
    for file in sorted(base.rglob("*.py")):
        parts = (package, *file.relative_to(base).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def importers(files: dict[str, Path]) -> dict[str, set[str]]:
    """For each module, the modules that import it or a name of it."""
    users = collections.defaultdict[str, set[str]](set)
    for name, file in files.items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    users[full if full in files else node.module].add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    users[alias.name].add(name)
    return users


def tree_figures() -> dict[str, object]:
    """All figures that need no run."""
    wheel, both = modules("prirec"), {**modules("prirec"), **modules("prirec_experiments")}
    texts = {name: file.read_text(encoding="utf-8") for name, file in both.items()}
    users = importers(both)
    lonely = [
        str(file.relative_to(ROOT)) for name, file in both.items()
        if file.name not in ("__init__.py", "__main__.py") and texts[name].count("\n") < SMALL and len(users[name]) == 1
    ]  # fmt: skip
    names = collections.Counter(file.name for file in both.values() if file.name != "__init__.py")
    return {
        "files in the wheel": len(wheel),
        "files of experiments": len(both) - len(wheel),
        "lines in the wheel": sum(texts[name].count("\n") for name in wheel),
        "lines of code proper in the wheel": sum(code_lines(texts[name]) for name in wheel),
        "lines of code proper of experiments": sum(code_lines(texts[name]) for name in both if name not in wheel),
        "comment lines": sum(map(comment_lines, texts.values())),
        f"files under {SMALL} lines with a single importer": lonely,
        "file names used more than three times": sorted(name for name, many in names.items() if many > 3),
    }


# Two traced runs


class Trace:
    """Files of the package with a function that is executed inside `with trace.on():`, in order of first execution.

    Bodies of modules and classes do not count, nor what they call: they run once, when a module is imported. Threads
    are followed if they were started inside `with trace:`."""

    def __init__(self) -> None:
        self._base, self._main, self._on = str(PACKAGES["prirec"]) + os.sep, threading.current_thread(), False
        self._here, self._service, self._children = dict[str, None](), dict[str, None](), dict[str, None]()

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        threading.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    @contextmanager
    def on(self) -> Iterator[None]:
        self._on = True
        try:
            yield
        finally:
            self._on = False

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        called = self._on and event == "call" and code.co_flags & inspect.CO_OPTIMIZED  # a function, not a body
        if called and code.co_filename.startswith(self._base):
            thread, file = threading.current_thread(), code.co_filename.removeprefix(self._base)
            seen = self._here if thread is self._main or thread.name.startswith(HELPER) else self._service
            if file not in seen and not _importing(frame):
                seen[file] = None

    def add_children(self, folder: Path) -> None:
        """What the processes of devices have left there, the earliest first."""
        for file in sorted(folder.glob("*.trace"), key=lambda one: one.stat().st_mtime_ns):
            self._children |= dict.fromkeys(file.read_text(encoding="utf-8").split())

    @property
    def here(self) -> list[str]:
        """In the thread that made the trace and its helpers: the training, or the devices."""
        return list(self._here)

    @property
    def children(self) -> list[str]:
        """In processes that were started: the contributions of devices."""
        return list(self._children)

    @property
    def service(self) -> list[str]:
        """In threads that were started: the recommender."""
        return list(self._service)

    @property
    def files(self) -> list[str]:
        return list(self._here | self._children | self._service)


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def visit_trace() -> Trace:
    """A visit from a CSV file to a recommendation: a small city is read and trained, and one person asks."""
    import prirec

    def run() -> None:
        fit = prirec.fit(prirec.read_folder(folder), prirec.settings("private", iterations=2), threads=1)
        fit.recommend(fit.people[7], k=3)

    with TemporaryDirectory() as folder:
        prirec.make_city(people=PEOPLE, seed=1).save(folder)
        run()  # imports, and compiles kernels: neither is on the way of a visit
        with Trace() as trace, trace.on():
            run()
    return trace


def gradient_trace() -> Trace:
    """A gradient from a device into V over HTTPS: a campaign of two rounds, from its beginning to its publication.

    The service runs in threads of its own, the devices in the event loop of this thread, and their contributions in
    processes of their own. All have joined before. RuntimeError if a device could not compute a contribution."""
    import low_floor

    with low_floor.lowered(), TemporaryDirectory() as folder:  # sums over few devices take seconds, not minutes
        _campaign(Path(folder) / "untraced", Trace(), seconds=None)  # imports, and compiles kernels
        with _traced_children(Path(folder)), Trace() as trace:
            _campaign(Path(folder) / "traced", trace, seconds=SILENCE)
        trace.add_children(Path(folder))
    return trace


@contextmanager
def _traced_children(folder: Path) -> Iterator[None]:
    """Python runs a sitecustomize.py on its path when it starts, and a device gives its process the path that it has
    itself."""
    here = str(Path(__file__).parent)
    text = f"import sys; sys.path.append({here!r})\nimport tree; tree.trace_child({str(folder)!r})\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def trace_child(folder: str) -> None:
    """Trace this process until it ends, and leave the files that it passes through there."""
    import low_floor

    low_floor.lower()
    trace, tracing = Trace(), ExitStack()
    tracing.enter_context(trace)
    tracing.enter_context(trace.on())

    def leave() -> None:
        tracing.close()
        Path(folder, f"{os.getpid()}.trace").write_text("\n".join(trace.here), encoding="utf-8")

    atexit.register(leave)  # Python runs it before the agent can see that the answer is complete


def _campaign(folder: Path, trace: Trace, *, seconds: float | None) -> None:
    """A deployment by the public API alone, with so much time for a contribution."""
    import prirec

    city = prirec.make_city(people=DEVICES, places=12, records=20 * DEVICES, seed=4)
    city.save(folder / "town")
    fewest = {"floor": DEVICES - 1}
    settings = prirec.settings("private", fewest, iterations=2)
    with ExitStack() as stack:
        recommender = stack.enter_context(prirec.Recommender.create(folder / "town.db", title="A town"))
        recommender.publish(folder / "town", settings)
        devices = [stack.enter_context(prirec.Device.open(folder / f"{at}.db")) for at in range(DEVICES)]
        visits, homes = city.dataset.visits, _homes(city)
        for at, device in enumerate(devices):
            for row in (visits.person == at).nonzero()[0]:
                device.record_visit(city.places[visits.place[row]], wanted=bool(visits.label[row] > 0), id=str(row))
        with recommender.serving() as url:
            for at, device in enumerate(devices):
                device.join(url, home=homes[at], authority=recommender.authority)
            recommender.begin(settings, anyway=True)
            with trace.on():
                asyncio.run(_rounds(recommender, devices, seconds=seconds))
            zeros = [device.zeros for device in devices if device.zeros.many]
            if zeros:
                raise RuntimeError(f"{len(zeros)} devices added zeros: {zeros[0].why}")


def _homes(city: "prirec.City") -> list[tuple[float, float]]:
    located = city.dataset.people.location
    if located is None:
        raise ValueError("a made-up city has homes")
    return [(float(latitude), float(longitude)) for latitude, longitude in located]


async def _rounds(recommender: "prirec.Recommender", devices: list["prirec.Device"], *, seconds: float | None) -> None:
    from prirec.device.agent import RetryPolicy

    def phase() -> str:
        sys.setprofile(None)  # in a thread of its own: that we ask is not on the way
        held = recommender.campaign()
        return "" if held is None else held.phase

    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix=HELPER))
    for device in devices:
        device.online = partial(device.online, retry=RetryPolicy(work=seconds))  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as asking:
        working = asyncio.gather(*(device.take_part_until(stop) for device in devices))
        try:
            while await loop.run_in_executor(asking, phase) != "over":
                await asyncio.sleep(0.1)
        finally:
            stop.set()
            await working


TRACES = {
    "files that a visit passes through, from CSV to a recommendation": (visit_trace, 45),
    "files that a gradient passes through, over HTTPS into V": (gradient_trace, 65),
}


def report(*, trace: bool, files: bool) -> Iterator[str]:
    for what, figure in tree_figures().items():
        if isinstance(figure, list):
            yield f"{what}: {len(figure)}" + (f" ({', '.join(figure)})" if figure else "")
        else:
            yield f"{what}: {figure:,}"
    for what, (run, wanted) in TRACES.items() if trace or files else ():
        found = run()
        yield f"{what}: {len(found.files)} (wanted: at most {wanted})"
        sides = {"": found.here, " (contribution)": found.children, " (service)": found.service}
        for side, listed in sides.items() if files else ():
            yield from (f"  {file}{side}" for file in listed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", action="store_true", help="trace the two runs and count their files")
    parser.add_argument("--files", action="store_true", help="trace, and list the files")
    asked = parser.parse_args()
    print("\n".join(report(trace=asked.trace, files=asked.files)))
