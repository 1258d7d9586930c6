"""Generated parts of pages that are otherwise written by hand."""

import re

END = "<!-- end -->"


def replace_part(text: str, *, begin: str, lines: list[str]) -> str:
    """The page with the part between `begin` and END replaced by these lines."""
    part = "\n".join(["", *lines, "", ""])
    new, count = re.subn(f"({begin}).*?({END})", lambda at: at[1] + part + at[2], text, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"a page must have one generated part, from {begin.strip()} to {END}")
    return new
