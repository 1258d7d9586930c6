"""Which settings a model is compared with: the paper's grid, α, λ_w and λ_v from 10⁻⁴ to 1, or a search by optuna.

Once for each model and city, at K = 5 with 80 % for training and one seed, by the log loss on a tenth of the training
records; test records are never looked at. The grid is pruned by successive halving: all of it for an eighth of the
passes, the better fifth for half of them, the better quarter of those to the end. The model as it is comes along to the
end, so that a search can only better it. What was tried is kept: a search that is stopped goes on where it was.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tomllib import loads
from typing import Any

from msgspec.structs import replace

from prirec import config
from prirec.config import Interaction, Linear, Settings
from prirec.errors import UsageError
from prirec.metrics import auc, log_loss
from prirec.simulate.setup import Setup, adapt_to_coordinates, set_up_validation
from prirec_experiments.experiment import Workspace
from prirec_experiments.models import MODELS, ComparedModel, Job
from prirec_experiments.results_store import Cell, ResultsStore, Scalar
from prirec_experiments.rivals.descent import quiet
from prirec_experiments.trial import ResolvedSettings, resolve

GRID = tuple(10.0**power for power in range(-4, 1))
SEED, DIMENSION, SHARE = 7, 5, 0.8
RUNGS = ((1 / 8, 1 / 5), (1 / 2, 1 / 4))  # of the passes in an early look, and of the settings that get the next
RIVAL = {"rival.alpha": GRID, "rival.lambda_w": GRID, "rival.lambda_v": GRID}
OURS = {"linear.alpha": GRID, "model.lambda_w": GRID, "model.lambda_v": GRID}


@dataclass(frozen=True, slots=True)
class Candidate:
    """Settings and how they did on validation records."""

    cell: Cell
    loss: float  # infinite where training diverged


def space(model: ComparedModel) -> Mapping[str, Sequence[float]]:
    """What is searched for. One α serves W and V, as in the paper. UsageError for rounds: nothing is to be chosen."""
    if model.own is None and model.settings.get("preset") in ("rounds", "private"):
        raise UsageError(f"{model.name} has no learning rate or regularisation to be searched for")
    return RIVAL if model.own is not None else OURS


def grid(city: str, model: str) -> list[Cell]:
    """All 125 settings of the paper's grid."""
    names, values = zip(*space(MODELS[model]).items(), strict=True)
    return [with_changes(city, model, dict(zip(names, one, strict=True))) for one in product(*values)]


def with_changes(city: str, model: str, changes: Mapping[str, Scalar]) -> Cell:
    """A model under these settings, at the K, share and seed that all searches have."""
    fixed: dict[str, Scalar] = {"seed": SEED, "model.dimension": DIMENSION, "data.train_share": SHARE}
    alpha = {"interaction.alpha": changes["linear.alpha"]} if "linear.alpha" in changes else {}
    return Cell.of(city, model, {**fixed, **changes, **alpha})


def search(
    city: str, model: str, workspace: Workspace, store: ResultsStore, *,
    cells: Iterable[Cell] | None = None, done: Callable[[Candidate], None] = lambda tried: None,
    ahead: Callable[[list[Cell]], None] = lambda cells: None,
) -> Candidate:  # fmt: skip
    """The best of the grid, or of these. `ahead` gets the cells that come next, and may measure them beforehand."""
    left = list(cells) if cells is not None else grid(city, model)
    for share, kept in RUNGS:
        short = [_shortened(cell, workspace, share) for cell in left]
        ahead(short)
        pairs = zip(short, left, strict=True)
        early = [validate_cell(one, workspace, store, done=done, whole=cell) for one, cell in pairs]
        sound = sorted((one for one in early if math.isfinite(one.loss)), key=lambda tried: tried.loss)
        left = [one.cell for one in sound[: math.ceil(kept * len(early))]]
    last = [with_changes(city, model, {}), *left]  # as it is, too
    ahead(last)
    best = min((validate_cell(cell, workspace, store, done=done) for cell in last), key=lambda tried: tried.loss)
    if not math.isfinite(best.loss):
        raise UsageError(f"every setting of {model} diverged on {city}; search among smaller ones")
    return best


def _shortened(cell: Cell, workspace: Workspace, share: float) -> Cell:
    """The cell with a part of its passes, for an early look."""
    how = default_settings(cell, workspace)
    passes = how.settings.iterations if how.own is None else how.own.passes
    few = max(1, round(share * passes))
    return cell.changed(iterations=few) if how.own is None else cell.changed(rival__passes=few)


def validate_cell(
    cell: Cell, workspace: Workspace, store: ResultsStore, *,
    done: Callable[[Candidate], None], whole: Cell | None = None,
) -> Candidate:  # fmt: skip
    """Measures a cell unless it was measured before; `whole` is the cell that this one is a shortened form of."""
    digest = validation_digest(cell, workspace)
    if not store.done(cell, digest):
        store.put(cell, digest, validated(cell, workspace))
    loss = (store.values(cell) or {}).get("log_loss")
    tried = Candidate(cell if whole is None else whole, math.inf if loss is None else float(loss))
    done(tried)
    return tried


def default_settings(cell: Cell, workspace: Workspace) -> ResolvedSettings:
    """From the model's defaults: what an earlier search has found is no part of this one."""
    return resolve(cell, workspace.city(cell.city)[0], MODELS[cell.model], {})


def validation_digest(cell: Cell, workspace: Workspace) -> str:
    """Of all that a figure on validation records depends on."""
    data = workspace.city(cell.city)[2]
    return default_settings(cell, workspace).digest(model=f"validation of {cell.model}", data=data)


def validated(cell: Cell, workspace: Workspace) -> dict[str, Any]:
    """Loss and AUC on held-out training records; none where training diverges."""
    how = default_settings(cell, workspace)
    setup = _validation_setup(cell.city, how.settings, workspace)
    try:
        scores = MODELS[cell.model].fit(Job(setup, how.own, workspace.threads, quiet)).scorer.test()
        labels = setup.samples.test.label
        return {"log_loss": log_loss(labels, scores), "auc": auc(labels, scores)}
    except UsageError:  # the loss is no longer a number
        return {"log_loss": None, "auc": None}


def _validation_setup(city: str, settings: Settings, workspace: Workspace) -> Setup:
    """The city made ready: once for all settings that differ in what is searched for alone."""
    if settings.privacy.epsilon_per_user is not None:  # what is released follows from the plan, and that from all
        return set_up_validation(workspace.city(city)[1], settings)
    model = replace(settings.model, lambda_w=0.0, lambda_v=0.0)
    common = replace(settings, linear=Linear(), interaction=Interaction(), iterations=1, model=model)
    name = f"{city}, {config.dump(common)}"
    setup = workspace.ready(name, lambda: set_up_validation(workspace.city(city)[1], common))
    usable = adapt_to_coordinates(settings, located=setup.samples.home is not None)
    return dataclasses.replace(setup, settings=usable)


def searched_settings(tried: Candidate) -> dict[str, Scalar]:
    """Those of a candidate's settings that the search has chosen."""
    names = {*space(MODELS[tried.cell.model]), "interaction.alpha"}
    return {name: value for name, value in tried.cell.changes if name in names}


def merged(file: Path, best: Candidate) -> str:
    """What was found, beside what stands in the file: settings/found.toml, by city and model. Nothing below a name
    says that the model as it is did best."""
    known = _known(file)
    known.setdefault(best.cell.city, {})[best.cell.model] = searched_settings(best)
    lines = ["# By `prirec tune`: for each city and model what did best on validation records, never on test ones."]
    for city, tables in sorted(known.items()):
        for model, settings in sorted(tables.items()):
            lines += ["", f'["{city}"."{model}"]']
            lines += [f'"{name}" = {value!r}' for name, value in sorted(settings.items())]
    return "\n".join(lines) + "\n"


def _known(file: Path) -> dict[str, dict[str, dict[str, Scalar]]]:
    try:
        return loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    except (OSError, ValueError):
        raise UsageError(f"{file} is not TOML that can be read; move it away, or name another folder") from None


# The same search by optuna: settings between those of the grid, chosen in the light of what was tried.


def search_by_optuna(
    city: str, model: str, workspace: Workspace, store: ResultsStore, *, trials: int,
    done: Callable[[Candidate], None] = lambda tried: None,
) -> Candidate:  # fmt: skip
    """Tree-structured Parzen estimators, seeded: a search that is stopped asks the same questions again, and what was
    answered before is not measured anew."""
    try:
        import optuna
    except ImportError:
        raise UsageError("this search is by optuna; install it with: pip install optuna") from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=SEED))
    tried = [validate_cell(with_changes(city, model, {}), workspace, store, done=done)]  # as it is

    def objective(trial: "optuna.Trial") -> float:
        ranges = {name: (min(values), max(values)) for name, values in space(MODELS[model]).items()}
        changes = {name: trial.suggest_float(name, low, high, log=True) for name, (low, high) in ranges.items()}
        tried.append(validate_cell(with_changes(city, model, changes), workspace, store, done=done))
        return tried[-1].loss

    study.optimize(objective, n_trials=trials, catch=())
    return min(tried, key=lambda one: one.loss)
