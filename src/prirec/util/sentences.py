"""Parts of sentences that people are shown: names that may have been meant, lists of names, numbers of things."""

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


def counted(many: int, noun: str) -> str:
    """A number of things in a sentence: no places, 1 place, 1,200 people."""
    names = noun if many == 1 else "people" if noun == "person" else f"{noun}s"
    return f"{many:,} {names}" if many else f"no {names}"
