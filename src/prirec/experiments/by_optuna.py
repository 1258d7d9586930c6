"""The same search by optuna: settings between those of the grid, chosen in the light of what was tried."""

from collections.abc import Callable

from prirec.errors import UsageError
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.entrants import ENTRANTS
from prirec.experiments.experiment import Workshop
from prirec.experiments.tuning import SEED, Tried, look, space, with_changes


def search(
    city: str, model: str, workshop: Workshop, cabinet: Cabinet, *, trials: int,
    done: Callable[[Tried], None] = lambda tried: None,
) -> Tried:  # fmt: skip
    """Tree-structured Parzen estimators, seeded: a search that is stopped asks the same questions again, and what was
    answered before is not measured anew."""
    try:
        import optuna
    except ImportError:
        raise UsageError("this search is by optuna; install it with: pip install 'prirec[experiments]'") from None

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=SEED))
    tried = [look(with_changes(city, model, {}), workshop, cabinet, done=done)]  # as it is

    def objective(trial: "optuna.Trial") -> float:
        ranges = {name: (min(values), max(values)) for name, values in space(ENTRANTS[model]).items()}
        changes = {name: trial.suggest_float(name, low, high, log=True) for name, (low, high) in ranges.items()}
        tried.append(look(with_changes(city, model, changes), workshop, cabinet, done=done))
        return tried[-1].loss

    study.optimize(objective, n_trials=trials, catch=())
    return min(tried, key=lambda one: one.loss)
