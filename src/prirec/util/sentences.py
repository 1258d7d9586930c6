"""Parts of sentences that people are shown: names that may have been meant, and lists of names."""

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them where none is near."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"known are {listed(names)}" if names else "none is known here"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence; in quotes where one of them has a comma or a space of its own."""
    every = list(names)
    apart = any("," in name or " " in name for name in every)
    return ", ".join(f"'{name}'" if apart else name for name in every)
