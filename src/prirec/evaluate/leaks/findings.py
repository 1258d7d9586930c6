"""What a leak check says: names, counts and odds, never who or where."""

from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["refused", "flagged"]

ODDS = 1e-6  # of a false alarm, for each check that rests on chance
FAR = 4.76  # the normal law has less than ODDS beyond it


@dataclass(frozen=True, slots=True)
class Finding:
    """One way in which the test set got into training, or may have."""

    name: str
    severity: Severity  # refused: figures would be wrong; flagged: they are right, but say less than they seem to
    words: str  # what was found, and what to do about it
    figure: float  # how much of it: the words say of what

    def as_dict(self) -> dict[str, str | float]:
        return asdict(self)


Findings: TypeAlias = tuple[Finding, ...]
