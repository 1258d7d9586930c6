"""Progress on the standard error stream, one bar a model; silent where nobody watches."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prirec.cli.output import console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from prirec.engines.state import Passed

MEASURING = ", measuring"


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one model."""

    bars: "Progress"
    task: "TaskID"

    def begin(self) -> None:
        """The clock starts: something is being done for this model."""
        self.bars.start_task(self.task)
        self.bars.update(self.task, stage="preparing")

    def tell(self, passed: "Passed") -> None:
        """One more iteration, and its loss; after the last of them the model is still to be measured."""
        last = MEASURING if passed.iteration == self._total else ""
        stage = f"loss {passed.loss:.4f}{self._pace(passed)}{last}"
        self.bars.update(self.task, completed=passed.iteration, stage=stage)

    def _pace(self, passed: "Passed") -> str:
        """On a cluster: how fast it goes, what it moves, and when it will be done."""
        if passed.moved is None or not passed.seconds:
            return ""
        left = self._total - passed.iteration
        rate, moved = passed.took_part / passed.seconds, passed.moved / 1e6
        return f", {rate:,.0f} people/s, {moved:,.1f} MB a round, {_duration(left * passed.seconds)} left"

    def finish(self) -> None:
        """Training may stop early, or have been done before: the bar is full all the same."""
        row = self.bars.tasks[self.task]
        done = row.completed or self._total
        self.bars.update(self.task, total=done, completed=done, stage=row.fields["stage"].removesuffix(MEASURING))

    @property
    def _total(self) -> float:
        return self.bars.tasks[self.task].total or 0


@contextmanager
def bars() -> "Iterator[Progress]":
    """Room for bars; they stay on the screen when they are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[stage]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as shown:
        yield shown


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A sign of life for work whose end is not known; it leaves nothing on the screen."""
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield
        return
    with screen.status(what):
        yield


def bar(shown: "Progress", name: str, *, iterations: int) -> Bar:
    """A new bar, whose clock stands until it begins."""
    return Bar(shown, shown.add_task(name, total=iterations, start=False, stage="waiting"))


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
