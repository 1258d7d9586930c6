"""Generated parts of pages that are otherwise written by hand, and pictures that stand by themselves."""

import re
from importlib.resources import files

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif'
END = "<!-- end -->"


def filled(text: str, *, begin: str, lines: list[str]) -> str:
    """The page with the part from `begin` to the end mark made anew; all other words are kept."""
    part = "\n".join(["", *lines, "", ""])
    new, count = re.subn(f"({begin}).*?({END})", lambda at: at[1] + part + at[2], text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"a page must have one generated part, from {begin.strip()} to {END}")
    return new


def alone(svg: str) -> str:
    """With the report's colours inside, and a ground of its own: it is shown as an image."""
    css = (files("prirec.evaluate.reporting") / "report.css").read_text(encoding="utf-8")
    light, dark = (_colours(block) for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2])
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
