"""Pieces of HTML. Every text that comes from data or settings passes through `text` on its way to the page."""

from collections.abc import Collection, Sequence
from importlib.resources import files

from prirec.util.shown import text  # one definition for pages and notebooks

# Even if a text slipped through unescaped, the page could neither run nor fetch anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def packaged(name: str) -> str:
    """A file of the package's assets: the page loads nothing from anywhere else."""
    return files("prirec.evaluate").joinpath("assets", name).read_text(encoding="utf-8")


def section(name: str, title: str, *parts: str) -> str:
    """A titled section. The parts are HTML, the title is text."""
    return f'<section id="{text(name)}">\n<h2>{text(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def paragraph(words: str, *, kind: str = "") -> str:
    """A paragraph of plain text."""
    mark = f' class="{text(kind)}"' if kind else ""
    return f"<p{mark}>{text(words)}</p>"


def figure(drawing: str, caption: str, numbers: str = "") -> str:
    """A drawing (SVG) with what it shows (text) above it, and its numbers as a table (HTML) folded below it."""
    return f"<figure><figcaption>{text(caption)}</figcaption>\n{drawing}{folded(numbers) if numbers else ''}</figure>"


def folded(numbers: str) -> str:
    """The numbers of a drawing: for who cannot see it, or wants to count. On paper they are not folded."""
    return f'\n<details class="numbers"><summary>Numbers</summary>\n{numbers}</details>'


def grid(figures: Sequence[str], *, kind: str) -> str:
    """Figures side by side where there is room, below each other on a phone."""
    return f'<div class="{text(kind)}">\n' + "\n".join(figures) + "\n</div>"


def beside(drawing: str, *notes: str) -> str:
    """A drawing, and what there is to say about it to its right or below."""
    return (
        f'<div class="beside">\n<figure>{drawing}</figure>\n<div class="notes">\n' + "\n".join(notes) + "\n</div></div>"
    )


def items(entries: Sequence[str]) -> str:
    """A list of plain texts."""
    return "<ul>\n" + "\n".join(f"<li>{text(entry)}</li>" for entry in entries) + "\n</ul>"


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, best: Collection[tuple[int, int]] = ()
) -> str:  # fmt: skip
    """A table of plain texts; names of columns of figures begin with '>'. `best` are rows and columns that get a star.

    On a phone a row is a block, and its first cell the title: each other cell says the name of its column itself."""
    names = [name.removeprefix(">") for name in columns]
    kinds = [_kind(name, [row[at] for row in rows]) for at, name in enumerate(columns)]
    star = '<span class="star" role="img" aria-label="best">★</span>'

    def cell(row: int, at: int, words: str) -> str:
        if at == 0:
            return f'<th scope="row"{_classes(kinds[0])}>{text(words)}</th>'
        marked = (row, at) in best
        look = _classes(kinds[at], "best" if marked else "")
        return f'<td data-label="{text(names[at])}"{look}>{text(words)}{star if marked else ""}</td>'

    heads = "".join(
        f'<th scope="col"{_classes(kind)}>{text(name)}</th>' for name, kind in zip(names, kinds, strict=True)
    )
    lines = ("".join(cell(number, at, words) for at, words in enumerate(row)) for number, row in enumerate(rows))
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="scroll" tabindex="0"><table>\n{head}\n<tbody>\n{body}\n</tbody></table></div>'


LONG = 30  # letters in a cell that is not to be folded into a narrow column


def _kind(column: str, cells: Sequence[str]) -> str:
    return "figure" if column.startswith(">") else "words" if any(len(words) > LONG for words in cells) else ""


def _classes(*kinds: str) -> str:
    used = " ".join(kind for kind in kinds if kind)
    return f' class="{used}"' if used else ""


def page(title: str, parts: Sequence[str], *, wide: bool = False) -> str:
    """A whole page that needs nothing but itself; a wide one is for tables of many columns."""
    main = '<main class="wide">' if wide else "<main>"
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{text(title)}</title>\n<style>\n{packaged('report.css')}</style>\n</head>\n<body>\n{main}\n"
    )
    return head + "\n".join(parts) + "\n</main>\n</body>\n</html>\n"
