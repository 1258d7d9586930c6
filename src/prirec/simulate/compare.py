"""Several models on one city, trained on the same records and measured on the same test."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.engines.state import IterationReport
from prirec.simulate.setup import Outcome, run, set_up


@dataclass(frozen=True, slots=True)
class Contender:
    """A model to be compared: its name, what it needs to know about people, and its settings."""

    name: str
    collects: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the comparison; its settings are as the set-up settled them."""

    contender: Contender
    outcome: Outcome = field(repr=False)
    seconds: float


def compare(
    dataset: Dataset,
    contenders: Sequence[Contender],
    *,
    threads: int = 2,
    tell: Callable[[Contender, IterationReport], None] = lambda contender, passed: None,
) -> tuple[Entry, ...]:
    """Each contender in turn. Settings of the same seed and data split the city alike."""

    def one(contender: Contender) -> Entry:
        began = monotonic()
        setup = set_up(dataset, contender.settings)
        outcome = run(setup, threads=threads, tell=lambda passed: tell(contender, passed))
        return Entry(replace(contender, settings=setup.settings), outcome, monotonic() - began)

    return tuple(one(contender) for contender in contenders)
