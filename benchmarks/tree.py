"""Figures about the source tree: how many files and lines, and how many files one visit and one gradient pass through.

    python benchmarks/tree.py [--trace]

Without --trace it only reads the tree. With it, two runs are traced: a small city is trained and one person gets
recommendations; and one campaign of two rounds runs over HTTPS on this machine. A file counts for a run if a function
of its own is executed; compiled kernels do not show, but the Python functions that call them do.
"""

import ast
import collections
import io
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = {
    "prirec": ROOT / "src" / "prirec",
    "prirec_experiments": ROOT / "experiments" / "src" / "prirec_experiments",
}
SMALL = 60
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


def executed(run: Callable[[], object]) -> set[str]:
    """Files of the package with a function that is executed while `run` runs, in any thread."""
    import threading

    seen = set[str]()
    base = str(PACKAGES["prirec"])

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(base) and code.co_name != "<module>" and code.co_flags & 2:
            seen.add(code.co_filename)

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {str(Path(file).relative_to(base)) for file in seen}


def report() -> Iterator[str]:
    for what, figure in tree_figures().items():
        if isinstance(figure, list):
            yield f"{what}: {len(figure)}" + (f" ({', '.join(figure)})" if figure else "")
        else:
            yield f"{what}: {figure:,}"


if __name__ == "__main__":
    print("\n".join(report()))
