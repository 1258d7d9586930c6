"""What a run that is trained within a budget would cost each person, and what it would tell its operator."""

from dataclasses import asdict, dataclass
from typing import Any

import typer

from prirec.cli.output import figure, show_table
from prirec.evaluate.experiment import Outcome
from prirec.evaluate.private_figures import PrivateFigures, private_figures, quality_release
from prirec.model.scoring import scores
from prirec.privacy.budget import planned
from prirec.privacy.read_figures import DROWNED, Estimate
from prirec.privacy.units import Adjacency


@dataclass(frozen=True, slots=True)
class Price:
    """The loss of a person who takes part in everything, and quality figures where they have a part of the budget."""

    epsilon: float
    epsilon_replace_one: float
    delta: float
    figures: PrivateFigures | None

    def as_dict(self) -> dict[str, Any]:
        told = {"epsilon": self.epsilon, "epsilon_replace_one": self.epsilon_replace_one, "delta": self.delta}
        return {**told, "figures": None if self.figures is None else _as_dict(self.figures)}


def _as_dict(figures: PrivateFigures) -> dict[str, Any]:
    estimates = {"auc": figures.read.auc, "log_loss": figures.read.log_loss, "base_rate": figures.read.base_rate}
    read = {name: None if found is None else asdict(found) for name, found in estimates.items()}
    return {"read": read, "true": asdict(figures.true)}


def price_of(outcome: Outcome) -> Price | None:
    """None where the settings promise nothing."""
    settings, samples, state = outcome.setup.settings, outcome.setup.samples, outcome.trained.state
    if settings.privacy.epsilon_per_user is None:
        return None
    plan = planned(settings, people=len(samples.ids), pois=len(samples.places), features=samples.features)
    figures = None
    if settings.privacy.quality:
        told = scores(state.linear, state.interaction, samples, samples.test)
        release = quality_release(settings, samples)
        figures = private_figures(samples.test, told, release=release, seed=settings.seed)
    replaced = plan.loss(Adjacency.REPLACE_ONE).epsilon
    return Price(plan.loss().epsilon, replaced, settings.privacy.delta, figures)


def show_price(price: Price) -> None:
    """In plain words."""
    if price.figures is not None:
        read, true = price.figures.read, price.figures.true
        rows = [
            ("AUC", _told(read.auc), figure(true.auc)),
            ("log loss", _told(read.log_loss), figure(true.log_loss)),
            ("share of positives", _told(read.base_rate), figure(true.base_rate)),
        ]
        show_table(("quality, each person counting once", ">as the operator reads it", ">as it is"), rows)
        if None in (read.auc, read.log_loss, read.base_rate):
            typer.echo(f"drowned: {DROWNED}")
    typer.echo(
        f"with devices, all this would cost each person ε = {price.epsilon:.4g} in all (δ = {price.delta:g}; "
        f"{price.epsilon_replace_one:.4g} between any two contributions); prirec privacy plan shows the parts"
    )


def _told(estimate: Estimate | None) -> str:
    return "drowned" if estimate is None else f"{figure(estimate.value)} ± {2 * estimate.error:.3f}"
