"""How large cohorts are under a plan, who chose that, and what the noise in their means comes to."""

from collections.abc import Iterator
from dataclasses import dataclass

from prirec.privacy.budget import LONGEST_NOISE, noise_in_mean, size_asked
from prirec.privacy.plan import Kind, Plan
from prirec.settings import Settings


@dataclass(frozen=True, slots=True)
class Cohorts:
    """The smallest cohort of a run, beside the one that its plan asks for."""

    people: int
    size: int  # the smallest, in words of the settings; with fewer people all are in one
    asked: int  # by the plan
    noise_in_mean: float  # of the smallest, when nobody is lost: its length, as a part of the longest model

    @property
    def in_words(self) -> str:
        """One sentence: how large, and why."""
        noise = f"the noise in a mean is {self.noise_in_mean:.2g} times as long as the longest model"
        if self.people <= self.size:
            return f"All {self.people:,} people are in one cohort: {noise}."
        if self.size == self.asked:
            return f"Cohorts have at least {self.size:,} people, as the plan asks: {noise}."
        return (
            f"Cohorts have at least {self.size:,} people, as the settings say, where the plan would ask for "
            f"{self.asked:,}: {noise}."
        )

    def notes(self) -> Iterator[str]:
        """What is not as it should be."""
        if self.people < self.size:
            yield f"there are fewer people than a cohort should have ({self.size:,}), so all are in one"
        if self.noise_in_mean > LONGEST_NOISE and self.people <= self.size:
            yield (
                f"for {self.people:,} people noise in linear models costs more: all are in one cohort, and in its mean "
                f"noise is {self.noise_in_mean:.2g} times as long as the longest model; with {self.asked:,} people it "
                "is a third, which costs almost nothing"
            )


def cohorts_of(plan: Plan, settings: Settings, *, people: int, features: int) -> Cohorts:
    """Of a plan for these settings, in which a size stands already: see privacy.budget.sized."""
    release = plan.release(Kind.MIXING)
    return Cohorts(
        people=people,
        size=settings.neighbours.size,
        asked=size_asked(settings, features=features),
        noise_in_mean=noise_in_mean(release, release.of.crowd),
    )
