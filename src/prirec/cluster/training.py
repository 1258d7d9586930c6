"""A whole run over shards: rounds, history, checkpoints, and what is lost on the way made good."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from time import monotonic
from typing import TypeVar

import msgspec
import numpy as np

from prirec.cluster.crew import LostError, RayCrew
from prirec.cluster.keeping import Shelf
from prirec.engines.checkpoint import Checkpoint
from prirec.engines.codes import codes_for
from prirec.engines.conducting import Conductor
from prirec.engines.shard import Whole
from prirec.engines.state import Passed, State, first_interaction
from prirec.errors import StateError, UsageError
from prirec.model.adam import no_moments
from prirec.settings import Settings

Answer = TypeVar("Answer")
LOST_IN_A_ROW = 5  # without an iteration that is new: the cluster is not one to work on
AGAIN = "actors are lost again and again; look at the nodes of the cluster"


def refuse_unfit(settings: Settings) -> None:
    """What shards cannot do."""
    if settings.schedule != "rounds":
        raise UsageError(
            "the cluster runs rounds: in the paper's schedule a sample needs the V that the one before it moved, and a "
            "centralised model needs all records in one place; use --engine local"
        )
    if settings.stopping.patience:
        raise UsageError("early stopping is not carried by the cluster: set stopping.patience to 0")
    if settings.latent.dimension:
        raise UsageError("latent vectors are not carried by the cluster: set latent.dimension to 0")


def kept_course(shelf: Shelf | None, settings: Settings) -> Checkpoint | None:
    """V and the history of the last checkpoint, if there is one; StateError if this run cannot go on from it."""
    if shelf is None or not shelf.there():
        return None
    course = shelf.conductor()
    if course.state.iteration > settings.iterations:
        many = settings.iterations
        raise StateError(f"the checkpoint is at iteration {course.state.iteration}, past the {many} asked for")
    return course


@dataclass(slots=True)
class Run:
    """Rounds from the start, or from the last checkpoint of the same run."""

    crew: RayCrew
    settings: Settings
    whole: Whole
    split: bool  # whether any cohort is in more than one shard
    shelf: Shelf | None = None
    every: int = 5
    tell: Callable[[Passed], None] = lambda passed: None

    def finished(self) -> Checkpoint:
        """V and the history; models are where the people are."""
        course, told, furthest, lost = self._recovered(), 0, 0, 0
        while True:
            for passed in course.history[told:]:
                self.tell(passed)
            told = max(told, len(course.history))
            if course.state.iteration >= self.settings.iterations:
                return course
            try:
                self._advance(course)
            except LostError:
                lost += 1
                if lost > LOST_IN_A_ROW:
                    raise StateError(AGAIN) from None
                course = self._recovered()
            if course.state.iteration > furthest:  # what is only done again is no progress
                furthest, lost = course.state.iteration, 0

    def afterwards(self, task: Callable[[], Answer]) -> Answer:
        """What is asked of the shards when all rounds are done. Where one is lost over it, a new one is brought to the
        same point, from the last checkpoint, and all are asked again."""
        for lost in range(LOST_IN_A_ROW):
            if lost:
                replace(self, tell=lambda passed: None).finished()
            with suppress(LostError):
                return task()
        raise StateError(AGAIN)

    def _advance(self, course: Checkpoint) -> None:
        """One round; whatever is lost in it leaves the course behind, to be thrown away."""
        people, places, features, _ = self.whole
        codes = codes_for(self.settings, people=people, places=places, features=features)
        before, began = self.crew.moved, monotonic()
        passed = Conductor(self.crew, self.settings, codes, split=self.split).advance(course.state)
        if not isfinite(passed.loss):
            raise UsageError("the loss is no longer a number: give linear.alpha or interaction.alpha a smaller value")
        seconds = monotonic() - began
        course.note(msgspec.structs.replace(passed, seconds=seconds, moved=self.crew.moved - before))
        if self.shelf is not None and course.state.iteration % self.every == 0:
            self._keep(course, self.shelf)

    def _keep(self, course: Checkpoint, shelf: Shelf) -> None:
        shelf.folder.mkdir(parents=True, exist_ok=True)
        names, folder = shelf.names(course.state.iteration), str(shelf.folder.resolve())
        self.crew.each("take", course.state.interaction, course.state.moments)
        self.crew.each_of("keep", [(folder, name, shelf.label(at)) for at, name in enumerate(names)])
        shelf.commit(course)

    def _recovered(self) -> Checkpoint:
        """A crew with nobody missing, all of them at the last checkpoint or at the start."""
        for _ in range(LOST_IN_A_ROW):
            with suppress(LostError):  # one more was lost meanwhile
                self.crew.mend()
                return self._restored()
        raise StateError(AGAIN)

    def _restored(self) -> Checkpoint:
        course = kept_course(self.shelf, self.settings)
        if self.shelf is None or course is None:
            self.crew.each("restart")
            return Checkpoint(self._start())
        names, folder = self.shelf.names(course.state.iteration), str(self.shelf.folder.resolve())
        self.crew.each_of("restore", [(folder, name, self.shelf.label(at)) for at, name in enumerate(names)])
        return course

    def _start(self) -> State:
        V = first_interaction(self.whole.features, self.settings)
        none = np.zeros((0, self.whole.features + 1))
        return State(0, none, V, no_moments(V.shape), none)
