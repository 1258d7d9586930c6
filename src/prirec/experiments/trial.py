"""One cell, measured: the city under the cell's settings, a model trained on it, and every figure on the test records.

Before anything is trained, the set-up is looked at by the leak checker: what would make a figure worthless is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic
from typing import Any

import msgspec
import numpy as np

from prirec import settings_file
from prirec.data.dataset import Dataset
from prirec.evaluate.experiment import Setup, set_up
from prirec.evaluate.leaks import check, refuse
from prirec.evaluate.metrics import measure
from prirec.evaluate.person import Advisor, Moment
from prirec.evaluate.ranking import RankQuality, asked, positives, rank_quality
from prirec.experiments.cells import Cell, Scalar
from prirec.experiments.cities import City
from prirec.experiments.entrants import Entrant, Job
from prirec.experiments.evidence import Evidence
from prirec.experiments.rivals.passes import Descent, Tell
from prirec.experiments.scorer import Scorer
from prirec.model.models import Models
from prirec.settings import Settings
from prirec.types import IndexArray

CODE = 2  # to be raised when the same settings, or a default that was changed, give other figures
ASKED, TOP, RADIUS_KM = 300, 10, 5.0  # people whose lists are looked at, how long a list is, how near its places are
OWN = "rival."


@dataclass(frozen=True, slots=True)
class Chosen:
    """All settings of a cell."""

    settings: Settings
    own: Descent | None

    def digest(self, *, model: str, data: str) -> str:
        """The same where the same is measured on the same data; new settings at their defaults change nothing."""
        own = "" if self.own is None else repr(self.own)
        text = "\0".join((str(CODE), model, data, repr(settings_file.changed(self.settings)), own))
        return blake2b(text.encode(), digest_size=12).hexdigest()


@dataclass(frozen=True, slots=True)
class Tried:
    """What a cell has given."""

    values: Mapping[str, Any]
    evidence: Evidence = field(repr=False)


def chosen(cell: Cell, city: City, entrant: Entrant, found: Mapping[str, Scalar]) -> Chosen:
    """The model's settings, changed by what its kind of city asks for, what a search has found, and the cell's own."""
    by_city = {**city.settings, **(city.paper if entrant.algorithm_2 else {})}
    given = {**by_city, **entrant.settings, **found, **dict(cell.changes)}
    settings = settings_file.load(changes={name: value for name, value in given.items() if not name.startswith(OWN)})
    if entrant.own is None:
        return Chosen(settings, None)
    own = {name.removeprefix(OWN): value for name, value in given.items() if name.startswith(OWN)}
    carried = {"dimension": settings.model.dimension, "seed": settings.seed}
    return Chosen(settings, msgspec.structs.replace(entrant.own, **{**carried, **own}))


def attempt(how: Chosen, entrant: Entrant, dataset: Dataset, *, threads: int, tell: Tell) -> Tried:
    """Trains and measures."""
    setup = set_up(dataset, how.settings)
    findings = check(setup)
    refuse(findings)
    began = monotonic()
    fitted = entrant.fit(Job(setup, how.own, threads, tell))
    seconds = monotonic() - began
    scores, test = fitted.scorer.test(), setup.samples.test
    counts = setup.samples.train.counts()
    quality = measure(test.label, scores, person=test.person, training_records=counts)
    values = {
        **quality.as_dict(),
        **ranked(setup, fitted.scorer).as_dict(),
        "seconds": seconds,
        "losses": list(fitted.losses),
        "flagged": [one.as_dict() for one in findings],
    }
    return Tried(values, Evidence.of(setup.samples, scores))


def ranked(setup: Setup, scorer: Scorer) -> RankQuality:
    """NDCG and recall at 10 of the matched places, for some people: those who have a new place in the test."""
    samples, matching = setup.samples, Advisor.of(setup, _nothing(setup))

    def candidates(person: int) -> IndexArray:
        return matching.matched(person, Moment(), k=TOP, radius_km=RADIUS_KM)

    return rank_quality(
        scorer.of, tests=positives(samples.test), candidates=candidates, exclude=positives(samples.train), k=TOP,
        people=asked(samples.test, ASKED, seed=setup.settings.seed),
    )  # fmt: skip


def _nothing(setup: Setup) -> Models:
    """A model of zeros: which places are matched does not depend on one."""
    D = setup.samples.features
    return Models(np.zeros((1, D + 1)), np.zeros((D, 1)))
