"""The tuned opponent: centralised FM whose settings are chosen on held-out training records of the same city.

K, learning rate, passes and regularisation are chosen by AUC on a tenth of the training records, which is split off as
the settings split; test records are never looked at. One after another: the learning rate, the regularisation and K,
each the best after a few passes with what is chosen so far; then passes until the AUC no longer rises. The features are
those of the settings, so that FM has every feature that the others have. The choice looks at everyone's raw records, as
FM does anyway.
"""

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import msgspec
import numpy as np

from prirec.config import Settings, apply
from prirec.data.dataset import Dataset
from prirec.engines.state import FactorizationState
from prirec.engines.train import make_engine
from prirec.features.samples import Samples
from prirec.metrics import auc
from prirec.model.scoring import scores
from prirec.simulate.setup import set_up_validation

MOST_PASSES = 24
EARLY = 8  # passes after which settings are compared; after fewer a large learning rate looks better than it is
PATIENCE = 3  # passes without a higher AUC, after which the chosen settings are not trained further
START = {"dimension": 15, "alpha": 2e-3, "lambda_w": 1e-5, "lambda_v": 1e-5}
STEPS: tuple[tuple[Mapping[str, float], ...], ...] = (
    ({"alpha": 1e-3}, {"alpha": 5e-4}, {"alpha": 4e-3}),
    ({"lambda_w": 3e-4, "lambda_v": 3e-4}, {"lambda_w": 1e-3, "lambda_v": 1.0}),  # the last leaves almost no V
    ({"dimension": 5}, {"dimension": 30}),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen, and what it has on the held-out training records."""

    settings: Settings = field(repr=False)
    auc: float
    tried: int  # settings

    @property
    def words(self) -> str:
        s = self.settings
        return (
            f"K = {s.model.dimension}, learning rate {s.linear.alpha:g}, {s.iterations} passes, "
            f"λ_w = {s.model.lambda_w:g}, λ_v = {s.model.lambda_v:g}"
        )

    def to_dict(self) -> dict[str, float | int]:
        """Ready for JSON."""
        s = self.settings
        return {
            "dimension": s.model.dimension, "alpha": s.linear.alpha, "passes": s.iterations,
            "lambda_w": s.model.lambda_w, "lambda_v": s.model.lambda_v, "validation_auc": self.auc, "tried": self.tried,
        }  # fmt: skip


class _Trial:
    """FM under some settings, as far as it has been trained, with the AUC after each pass."""

    def __init__(self, samples: Samples, found: Mapping[str, float], settings: Settings):
        self.samples, self.found, self.settings, self.curve = samples, found, settings, list[float]()
        self.engine = make_engine("local", samples, settings)
        self.state: FactorizationState = self.engine.start()

    @property
    def best(self) -> float:
        return max(self.curve, default=-math.inf)

    def run(self, passes: int, *, patience: int) -> "_Trial":
        """Up to so many passes; fewer if it diverges, or if its AUC has not risen for so long."""
        test = self.samples.test
        while len(self.curve) < passes and len(self.curve) - self.passes < patience:
            report = self.engine.advance(self.state)
            found = scores(self.state.models, self.samples, test) if math.isfinite(report.loss) else np.array(math.nan)
            if not np.isfinite(found).all():
                break
            reached = auc(test.label, found)
            if math.isnan(reached):  # the held-out records have one class: nothing to choose by
                break
            self.curve.append(reached)
        return self

    @property
    def passes(self) -> int:
        """After how many the AUC was highest."""
        return int(np.argmax(self.curve)) + 1 if self.curve else 0


def tune(dataset: Dataset, settings: Settings, *, threads: int = 2) -> Chosen:
    """FM's settings for this city: `settings` with K, learning rate, λ_w, λ_v and passes replaced; their iterations are
    the most passes. They stay as they are where the held-out records are of one class. Any number of threads chooses
    the same."""
    samples = set_up_validation(dataset, settings).samples
    early = min(EARLY, settings.iterations)

    def tried(found: Mapping[str, float]) -> _Trial:
        return _Trial(samples, found, _with(settings, found)).run(early, patience=early)

    best = tried(START)
    with ThreadPoolExecutor(max(threads, 1)) as pool:
        for changes in STEPS:
            others = pool.map(tried, [{**best.found, **change} for change in changes])
            best = max((best, *others), key=lambda trial: trial.best)  # among equals what was chosen before
    best.run(settings.iterations, patience=PATIENCE)
    many = 1 + sum(map(len, STEPS))
    if not best.curve:
        return Chosen(settings, math.nan, many)
    return Chosen(msgspec.structs.replace(best.settings, iterations=best.passes), best.best, many)


def _with(settings: Settings, found: Mapping[str, float]) -> Settings:
    model, alpha = {name: found[name] for name in ("dimension", "lambda_w", "lambda_v")}, {"alpha": found["alpha"]}
    return apply(settings, {"model": model, "linear": alpha, "interaction": alpha})
