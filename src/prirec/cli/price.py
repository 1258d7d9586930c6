"""What a run that is trained within a budget would cost each person, and what it would tell its operator."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

import typer

from prirec.cli.cohorts import Cohorts, cohorts_of
from prirec.cli.outlook import FIGURES, Term, drowned, terms
from prirec.cli.outlook_words import promise
from prirec.cli.output import console, figure, show_table
from prirec.engines.participation import left_in_collection
from prirec.errors import PolicyError, UsageError
from prirec.evaluate.experiment import Outcome, Setup
from prirec.evaluate.private_figures import PrivateFigures, private_figures
from prirec.model.scoring import scores
from prirec.privacy.budget import planned
from prirec.privacy.plan import Kind, Plan
from prirec.privacy.read_figures import DROWNED, Estimate
from prirec.settings import Settings

UNREAD = f"no quality figure can be read: {DROWNED}"


@dataclass(frozen=True, slots=True)
class Price:
    """The loss of a person who takes part in everything, and quality figures where they have a part of the budget."""

    plan: Plan = field(repr=False)
    cohorts: Cohorts
    terms: tuple[Term, ...]  # for life; or for the period, and for a year of such periods
    figures: PrivateFigures | None = None  # None: not wanted, not read yet, or drowned

    def as_dict(self) -> dict[str, Any]:
        first = self.terms[0]
        return {
            "epsilon": first.epsilon,
            "epsilon_replace_one": first.epsilon_replace_one,
            "delta": self.plan.delta,
            "period_days": first.days,
            "terms": [asdict(term) for term in self.terms],
            "cohorts": asdict(self.cohorts),
            "figures": None if self.figures is None else _as_dict(self.figures),
        }

    def warnings(self) -> tuple[str, ...]:
        """Before anything is spent."""
        return (*self.cohorts.notes(), *drowned(self.plan))


def _as_dict(figures: PrivateFigures) -> dict[str, Any]:
    found = {name: getattr(figures.read, name) for name in FIGURES}
    read = {name: None if estimate is None else asdict(estimate) for name, estimate in found.items()}
    return {"read": read, "true": asdict(figures.true)}


def price_of(setup: Setup) -> Price | None:
    """Known before training; None where the settings promise nothing."""
    samples = setup.samples
    return price_for(
        setup.settings, people=len(samples.ids), places=len(samples.places), features=samples.features
    )  # fmt: skip


def price_for(settings: Settings, *, people: int, places: int, features: int) -> Price | None:
    """The same, of a city that nobody holds."""
    if settings.privacy.epsilon_per_user is None:
        return None
    many = {"people": people, "features": features}
    plan = planned(settings, **many, pois=places)
    return Price(plan, cohorts_of(plan, settings, **many), terms(plan, settings.privacy.period_days))


def with_figures(price: Price, outcome: Outcome) -> tuple[Price, tuple[str, ...]]:
    """The price with what the operator could read, if that is in it; a note where the noise drowns everything."""
    settings, samples, state = outcome.setup.settings, outcome.setup.samples, outcome.trained.state
    if not settings.privacy.quality:
        return price, ()
    told = scores(state.models, samples, samples.test)
    left = left_in_collection(samples.keys, settings, of="quality")
    release = price.plan.release(Kind.QUALITY)
    try:
        figures = private_figures(samples.test, told, release=release, seed=settings.seed, left=left)
    except UsageError:
        return price, (UNREAD,)
    except PolicyError as closed:
        return price, (str(closed),)
    return replace(price, figures=figures), ()


def show_price(price: Price) -> None:
    """In plain words."""
    if price.figures is not None:
        _show_figures(price.figures)
    console().print(price.cohorts.in_words)
    told = promise(price.terms, price.plan.delta)
    console().print(f"with devices, all this would cost each person {told}; prirec privacy plan shows the parts")


def _show_figures(figures: PrivateFigures) -> None:
    pairs = [(words, getattr(figures.read, name), getattr(figures.true, name)) for name, words in FIGURES.items()]
    rows = [(words, _told(read), figure(true)) for words, read, true in pairs]
    show_table(("quality, each person counting once", ">as the operator reads it", ">as it is"), rows)
    if any(read is None for _, read, _ in pairs):
        typer.echo(f"drowned: {DROWNED}")


def _told(estimate: Estimate | None) -> str:
    return "drowned" if estimate is None else f"{figure(estimate.value)} ± {2 * estimate.error:.3f}"
