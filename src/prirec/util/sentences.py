"""Parts of sentences that people are shown: names that may have been meant, and lists of names."""

from collections.abc import Iterable
from difflib import get_close_matches

_NEAR = 0.7  # of difflib, where "hihg" and "high" have 0.75: a guess that is far off may be an option that deletes


def suggest(name: str, known: Iterable[str]) -> str:
    """The nearest known name, or all of them where none is near."""
    names = sorted(known)
    bare = {known.lstrip("-"): known for known in names}  # every two options have their dashes in common
    near = get_close_matches(name.lstrip("-"), bare, n=1, cutoff=_NEAR)
    if near:
        return f"did you mean '{bare[near[0]]}'?"
    return f"known are {listed(names)}" if names else "none is known here"


def listed(names: Iterable[str]) -> str:
    """Names in a sentence; in quotes where one of them has a comma or a space of its own."""
    every = list(names)
    apart = any("," in name or " " in name for name in every)
    return ", ".join(f"'{name}'" if apart else name for name in every)
