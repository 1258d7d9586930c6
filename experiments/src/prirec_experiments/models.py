"""The models that tables compare: settings of PriRec and of centralised FM, rivals of other kinds, and controls.

A control row keeps a comparison honest: what popularity alone gives, what Algorithm 2 gives where nobody's linear model
is mixed with another (gamma = 0), and what FM gives with a parameter for every person and place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from prirec.simulate.compare import Model, NoisyPopularity, registered_model
from prirec.simulate.popularity import RandomizedAnswers
from prirec.simulate.recommend import Advisor
from prirec.simulate.setup import Setup, run
from prirec.simulate.tuned_fm import MOST_PASSES
from prirec_experiments.results_store import Scalar
from prirec_experiments.rivals import dmf, fm_ids, mf
from prirec_experiments.rivals.descent import Descent, Tell
from prirec_experiments.scorer import (
    AdvisorScorer,
    ModelScorer,
    PairScorer,
    PopularityModel,
    Scorer,
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A trained model, and the loss of each pass."""

    scorer: Scorer
    losses: tuple[float, ...] = ()  # mean training loss of each pass


@dataclass(frozen=True, slots=True)
class Job:
    """What a model is trained with: the prepared city, a rival's settings, threads, and who hears of passes."""

    setup: Setup
    own: Descent | None  # a rival's settings
    threads: int
    tell: Tell = field(repr=False)  # iteration, loss


Fit: TypeAlias = Callable[[Job], Fitted]


@dataclass(frozen=True, slots=True)
class ComparedModel:
    """`settings` are changes to a preset, those that begin with "rival." to the rival's own."""

    name: str
    description: str  # for whoever reads a table
    settings: Mapping[str, Scalar]
    fit: Fit = field(repr=False)
    own: Descent | None = None
    control: bool = False
    probabilities: bool = True  # its scores are log-odds, so that they have a log loss
    tuned: bool = False  # K, learning rate, regularisation and passes are chosen on held-out training records

    @property
    def algorithm_2(self) -> bool:
        """Whether it learns as the paper has it: sample after sample, with neighbours."""
        return self.settings.get("preset") == "paper"


def _trained(job: Job) -> Fitted:
    """PriRec or FM, as the settings say."""

    outcome = run(job.setup, threads=job.threads, progress=lambda passed: job.tell(passed.iteration, passed.loss))
    scorer = AdvisorScorer(Advisor.of(job.setup, outcome.trained.models), outcome.test_scores)
    return Fitted(scorer, tuple(passed.loss for passed in outcome.trained.history))


def _popular(job: Job) -> Fitted:
    model = PopularityModel(job.setup.popularity.released["visitors"])
    return Fitted(PairScorer(model, job.setup.samples.test))


def _by(fit: Callable[..., Scorer]) -> Fit:
    """A rival as a `Fit`, from its scorer(setup, settings, tell=...)."""

    def fitted(job: Job) -> Fitted:
        losses: list[float] = []

        def tell(number: int, loss: float) -> None:
            losses.append(loss)
            job.tell(number, loss)

        scorer = fit(job.setup, job.own, tell=tell)
        return Fitted(scorer, tuple(losses))

    return fitted


def _scored_by(name: str, model: Model) -> Fit:
    """A model that follows prirec.simulate.compare.Model as a `Fit`."""

    def fitted(job: Job) -> Fitted:
        return Fitted(ModelScorer.trained(name, model, job.setup))

    return fitted


_PAPER: dict[str, Scalar] = {"preset": "paper"}
_BITS: dict[str, Scalar] = {"popularity.mechanism": RandomizedAnswers.name, "popularity.epsilon_per_bit": 1.0}
_RECORDS: dict[str, Scalar] = {"popularity.reporters": "those-with-a-record"}
_BARE: dict[str, Scalar] = {"features.own_history": False, "features.areas": 0}

ALL = (
    ComparedModel(
        "popularity alone", "places by how many people visited them", {"preset": "rounds"}, _popular,
        control=True, probabilities=False,
    ),
    ComparedModel(
        "popularity, private", "places by a noisy sum of visits, at the price of private", NoisyPopularity.settings,
        _scored_by("popularity, private", NoisyPopularity()), control=True, probabilities=False,
    ),
    ComparedModel(
        "local only", "Algorithm 2 where every device learns its linear model by itself (γ = 0)",
        {**_PAPER, "linear.gamma": 0.0}, _trained, control=True,
    ),
    ComparedModel(
        "FM + ids", "centralised FM with a parameter for every person and place", {"preset": "rounds", **_BARE},
        _by(fm_ids.scorer), fm_ids.FmIdsSettings(), control=True,
    ),
    ComparedModel("MF", "centralised matrix factorisation", {"preset": "rounds"}, _by(mf.scorer), mf.MfSettings()),
    ComparedModel(
        "DMF", "decentralised matrix factorisation: gradients go to neighbours", {"preset": "rounds"},
        _by(dmf.scorer), dmf.DmfSettings(),
    ),
    ComparedModel("FM", "centralised FM, the paper's baseline", {"preset": "fm", **_BARE}, _trained),
    ComparedModel(
        "FM, tuned", "centralised FM at its best: every feature; K, rate, passes, λ by held-out training records",
        {"preset": "fm", "iterations": MOST_PASSES}, _trained, tuned=True,
    ),
    ComparedModel("PriRec-", "Algorithm 2 without popularity", {**_PAPER, "features.dynamic": False}, _trained),
    ComparedModel(
        "PriRec", "Algorithm 2; bits of ε = 1 from those with a record, who give their visits away by reporting",
        {**_PAPER, **_BITS, **_RECORDS}, _trained,
    ),
    ComparedModel(
        "PriRec, all report", "Algorithm 2; bits of ε = 1 from everyone about every place, Eq. (6) as printed",
        {**_PAPER, **_BITS}, _trained,
    ),
    ComparedModel(
        "PriRec, rounds", "ours without noise: a shared model, and each person's own around it", {"preset": "rounds"},
        _trained,
    ),
    ComparedModel(
        "PriRec, private", "ours, all that leaves a device within ε = 1 and δ = 1e-6 a person", {"preset": "private"},
        _trained,
    ),
    ComparedModel(
        "PriRec, private, 10 % lost", "the same, where a tenth of the devices is lost in every sum",
        {"preset": "private", "participation.dropout": 0.1}, _trained,
    ),
    ComparedModel(
        "PriRec, private, bare", "private, without own history and home areas", {"preset": "private", **_BARE}, _trained
    ),
    ComparedModel(
        "PriRec, private, areas", "private, without own history", {"preset": "private", "features.own_history": False},
        _trained,
    ),
    ComparedModel(
        "FM, tuned, bare", "centralised FM at its best, without own history and home areas",
        {"preset": "fm", "iterations": MOST_PASSES, **_BARE}, _trained, tuned=True,
    ),
)  # fmt: skip


class _Models(dict[str, ComparedModel]):
    """Models by name; a name that is none of ours is looked for among the models that packages register."""

    def __missing__(self, name: str) -> ComparedModel:
        self[name] = _registered(name)
        return self[name]


def _registered(name: str) -> ComparedModel:
    """A model of the entry points `prirec.models`; UsageError, with known names, where there is none."""
    model = registered_model(name)
    settings: dict[str, Scalar] = {"preset": "rounds", **getattr(model, "settings", {})}
    return ComparedModel(name, str(getattr(model, "collects", "")), settings, _scored_by(name, model))


MODELS: Mapping[str, ComparedModel] = _Models({model.name: model for model in ALL})
