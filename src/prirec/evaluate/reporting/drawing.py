"""From matplotlib to SVG inside a page: it takes its fonts and colours from the page, so that it follows dark mode.

matplotlib knows no style sheets. It draws with stand-in colours, which are then replaced by names that the style sheet
defines. The same figure always gives the same bytes.
"""

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from prirec.errors import UsageError
from prirec.evaluate.reporting.page import packaged, text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif'
COLOURS = 8  # that the style sheet names --series-0, ...
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
INK, FAINT = "#010203", "#010204"  # stand-ins for the text and for lines that help the eye

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a name with dollars in it is a name
    "font.size": 9.75,  # 13 CSS pixels
    "axes.titlesize": 9.75,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "grid.color": FAINT,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
} | dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK)


def colour(position: int) -> int:
    """Which colour the model at this position has."""
    return position % COLOURS


def shape(position: int) -> int:
    """Which of the markers it has, so that colour is never the only difference; after eight, new pairs."""
    return (position + position // COLOURS) % len(MARKERS)


def series(position: int) -> str:
    """The stand-in for the colour of the model at this position."""
    return f"#0201{colour(position):02x}"


def marker(position: int) -> str:
    return MARKERS[shape(position)]


def draw(paint: Callable[["Figure"], None], *, label: str, width: int, height: int) -> str:
    """SVG of a figure of so many CSS pixels that `paint` fills. The label is what a screen reader says."""
    matplotlib = _matplotlib()
    from matplotlib.figure import Figure

    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)  # the reader's fonts draw it
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"svg.hashsalt": label})
        made = Figure(figsize=(width / 96, height / 96))
        paint(made)
        out = io.StringIO()
        made.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _inline(out.getvalue(), label, width)


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise UsageError("the report draws with matplotlib: pip install 'prirec[report]'") from None
    return matplotlib


def _inline(svg: str, label: str, width: int) -> str:
    """Only what a page needs: no prologue, no metadata, no ids of groups, which would repeat from plot to plot."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg).replace("xlink:href", "href")
    svg = re.sub(r'style="[^"]*"', lambda found: _themed(found[0]), svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    opening = f'<svg class="plot" {box[0] if box else ""} style="max-width:{round(1.2 * width)}px" role="img"'
    return f'{opening} aria-label="{text(label)}">' + re.sub(r"\s*\n\s*", "\n", svg[svg.index(">") + 1 :]).strip()


def _themed(style: str) -> str:
    """The page's colours for the stand-ins; of fonts only the size is kept."""
    style = re.sub(r'font(-size)?: ([\d.]+)px[^;"]*', r"font-size: \2px", style)
    style = style.replace(INK, "currentColor").replace(FAINT, "var(--faint)")
    return re.sub(r"#0201([0-9a-f]{2})", lambda found: f"var(--series-{int(found[1], 16)})", style)


def alone(svg: str) -> str:
    """With the report's colours inside, and a ground of its own: it is shown as an image."""
    light, dark = (_colours(block) for block in re.findall(r":root \{(.*?)\}", packaged("report.css"), re.DOTALL)[:2])
    style = (
        f"<style>svg {{ {light} color: var(--ink); font-family: {FONT}; }}\n"
        f"@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    )
    opening, rest = re.sub(r' class="plot"| style="max-width[^"]*"', "", svg).split(">", 1)
    opening = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    return f'{opening}>\n{style}\n<rect width="100%" height="100%" style="fill: var(--page)"/>{rest}\n'


def _colours(block: str) -> str:
    used = r"--(?:page|ink|faint|series-\d): #[0-9a-f]+;"
    return " ".join(re.findall(used, block))
