"""docs/architecture.md and its picture: packages from the import contracts, files in order from two traced runs."""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "pictures" / "packages.svg"
SOURCES = {"prirec": "src/prirec", "prirec_experiments": "experiments/src/prirec_experiments"}
LAYERS, PURE = "imports go one way", "no clock, thread, socket, log or entropy below the engines"

Ways = dict[str, list[str]]  # title of a way, and its files in order


@dataclass(frozen=True)
class Package:
    """A package, or a module that has a layer of its own."""

    name: str  # as the contract has it: prirec.device
    pure: bool

    @property
    def file(self) -> str:
        """Its file from the root of the repository."""
        top, *rest = self.name.split(".")
        folder = "/".join((SOURCES[top], *rest))
        return f"{folder}/__init__.py" if (ROOT / folder).is_dir() else f"{folder}.py"

    @property
    def short(self) -> str:
        return self.name.removeprefix("prirec.")

    @property
    def about(self) -> str:
        return first_line(self.file)


def contracts() -> dict[str, dict[str, Any]]:
    """The import contracts of pyproject.toml, by name."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return {one["name"]: one for one in tomllib.loads(text)["tool"]["importlinter"]["contracts"]}


def layers() -> list[list[Package]]:
    """From the top, which may import everything below it, to the bottom."""
    found = contracts()
    pure = set(found[PURE]["source_modules"])
    rows = [row.split(" | ") for row in found[LAYERS]["layers"]]
    return [[Package(name, name in pure) for name in row] for row in rows]


def first_line(file: str) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / file).read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"(?<=\.)(?<!Eq\.)(?<!Eqs\.)(?<!al\.)\s", " ".join(text.split("\n\n")[0].split()))[0]
    return sentence.rstrip(".:").replace("|", "\\|")


# The picture

WIDTH, MARGIN, GAP, LINE = 960, 16, 12, 15
LETTER = 6.1  # width of a letter of the small type, as wide as fonts come


def picture() -> str:
    """Packages as boxes, a row for each layer: imports go down only."""
    boxes, top = list[str](), MARGIN + 26
    for row in layers():
        width = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        lines = [wrap(one.about, int((width - 24) / LETTER)) for one in row]
        height = 28 + LINE * max(map(len, lines))
        for at, (package, words) in enumerate(zip(row, lines, strict=True)):
            boxes += _box(package, words, left=MARGIN + at * (width + GAP), top=top, width=width, height=height)
        top += height + GAP
    legend = (
        f'<rect x="{MARGIN}" y="{MARGIN - 4}" width="14" height="14" fill="#e3f1ea" stroke="#2f7d5b"/>'
        f'<text x="{MARGIN + 22}" y="{MARGIN + 8}" font-size="12">no clock, thread, socket, log or source of entropy'
        "</text>"
        f'<text x="{WIDTH - MARGIN}" y="{MARGIN + 8}" font-size="12" text-anchor="end">'
        "a package imports only from rows below its own ↓</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" width="{WIDTH}" height="{top}" '
        'role="img" aria-label="The packages of PriRec in layers" '
        'font-family="system-ui, Segoe UI, Roboto, Noto Sans, Arial, sans-serif" fill="#1c2126">\n'
        f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>\n' + "\n".join([legend, *boxes]) + "\n</svg>\n"
    )


def _box(package: Package, words: list[str], *, left: float, top: float, width: float, height: float) -> Iterator[str]:
    fill, line = ("#e3f1ea", "#2f7d5b") if package.pure else ("#eef2f6", "#6b7580")
    yield (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="{line}"/>'
        f'<text x="{left + 12:g}" y="{top + 19:g}" font-size="14" font-weight="bold">{escape(package.short)}</text>'
    )
    for at, text in enumerate(words):
        yield f'<text x="{left + 12:g}" y="{top + 36 + LINE * at:g}" font-size="11.5">{escape(text)}</text>'


# The page

VISIT, DEVICE = "From a visit to a recommendation", "On the device"
CONTRIBUTION, SERVICE = "In its process for a contribution", "At the recommender"
GRADIENT = (DEVICE, CONTRIBUTION, SERVICE)


def architecture_page(ways: Ways | None = None) -> str:
    """The whole page; without `ways`, with the files that it lists now."""
    ways = ways_on_page() if ways is None else ways
    gradient = {file for side in GRADIENT for file in ways[side]}
    return f"""# Architecture

What the packages are, which may import which, and the files that run in two typical cases, in order. Generated by
`make docs` from the import contracts in `pyproject.toml`, from two traced runs (`python benchmarks/tree.py --trace`)
and from the first line of each file. What is computed and sent:
[how it works](how-it-works.md), [protocols](protocols.md).

## Packages

![The packages of PriRec in layers](pictures/packages.svg)

`make lint` checks these contracts:

{chr(10).join(_contracts())}

`import prirec` itself loads nothing: names are loaded when they are first used. `prirec_experiments` is a package of
its own, in `experiments/`.

## {VISIT}

From CSV to a recommendation: `prirec.read_folder`, `prirec.fit` with the preset `private`, `fit.recommend`. In the
order of their first executed function: {len(ways[VISIT])} files. Kernels that Numba compiles do not show; the functions
that call them do.

{_table(ways[VISIT])}

## From a device's gradient to V

From a device into V: a campaign of two rounds over HTTPS, from its beginning until the model is published, on a
deployment that devices have joined. {len(gradient)} files on both sides together, in the order of one run; the two
sides run at the same time. A device computes what it adds in
[a process of its own](decisions/0023-time-tells-nothing.md).

### {DEVICE}

{_table(ways[DEVICE])}

### {CONTRIBUTION}

{_table(ways[CONTRIBUTION])}

### {SERVICE}

{_table(ways[SERVICE])}
"""


def _contracts() -> Iterator[str]:
    for name, one in contracts().items():
        if one["type"] == "layers":
            yield f"- **{name[0].upper()}{name[1:]}**: a package imports only from rows below its own in the picture."
        else:
            sources = ", ".join(f"`{module.removeprefix('prirec.')}`" for module in one["source_modules"])
            barred = ", ".join(f"`{module.removeprefix('prirec.')}`" for module in one["forbidden_modules"])
            yield f"- **{name[0].upper()}{name[1:]}**: {barred} may not be imported by {sources}."


def _table(files: list[str]) -> str:
    rows = [
        f"| {at} | [`{file}`](../src/prirec/{file}) | {first_line(f'src/prirec/{file}')} |"
        for at, file in enumerate(files, 1)
    ]
    return "\n".join(("| | file | what it does |", "|---|---|---|", *rows))


def ways_on_page() -> Ways:
    """The files that the page lists now."""
    text = PAGE.read_text(encoding="utf-8")
    found = {}
    for title in (VISIT, *GRADIENT):
        section = re.split(r"^##", re.split(rf"^###? {title}$", text, flags=re.MULTILINE)[1], flags=re.MULTILINE)[0]
        found[title] = re.findall(r"^\| \d+ \| \[`([^`]+)`\]", section, flags=re.MULTILINE)
    return found


def traced_ways() -> Ways:
    """The files of two traced runs.

    Threads of the second run interleave differently each time, and what one side has cached the other need not compute:
    what the page lists stays as long as it lists the right files."""
    import sys

    sys.path.insert(0, str(ROOT / "benchmarks"))
    from tree import gradient_trace, visit_trace

    gradient = gradient_trace()
    sides = zip(GRADIENT, (gradient.here, gradient.children, gradient.service), strict=True)
    traced = {VISIT: visit_trace().here, **dict(sides)}
    if PAGE.exists():
        listed = ways_on_page()
        if {file for side in GRADIENT for file in listed[side]} == set(gradient.files):
            traced |= {side: listed[side] for side in GRADIENT}
    return traced
