"""What a privacy budget promises and costs, before anything is collected, and what a device has spent of it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prirec.api.cities import City, city_of, refuse_no_count
from prirec.api.fits import threads_of
from prirec.config import PresetName, Settings, apply, check, settings_of
from prirec.errors import PolicyError, UsageError

if TYPE_CHECKING:
    from prirec.data.dataset import Dataset
    from prirec.engines.state import IterationReport
    from prirec.privacy.ledger import Account
    from prirec.simulate.forecast import Forecast
    from prirec.simulate.privacy_plan import Counts, PrivacyPlan

_MOST_VISITS = 1_000_000


def plan(
    city: City | Path | str | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    people: int | None = None,
    places: int | None = None,
    features: int | None = None,
    visits_per_person: float = 20.0,
    rounds: int | None = None,
    years: float | None = None,
    settings: Settings | PresetName | None = None,
) -> "PrivacyPlan":
    """What each person would be promised, the noise that this takes, and whether it is usable, before any collection.

    From a city, or from the numbers of people, places and features (50 unless given); a number that is given goes
    before the city's. The errors of averages over visits are foreseen for so many places that a person visits.
    `epsilon`, `delta` and `rounds` change the settings, which are "private" by default. `years` adds
    the periods up where the settings give the budget to each privacy.period_days. Nothing is computed from anyone's
    records.
    """
    from prirec.simulate.privacy_plan import FEATURES, LONGEST_YEARS, Counts, make_plan

    chosen = settings_of(settings)
    budget = {"epsilon_per_user": epsilon, "delta": delta}
    changes: dict[str, Any] = {"privacy": {name: value for name, value in budget.items() if value is not None}}
    if rounds is not None:
        changes["iterations"] = rounds
    chosen = check(apply(chosen, changes))
    for name, value in (("people", people), ("places", places), ("features", features)):
        if value is not None:
            refuse_no_count(name, value)
    if years is not None and not (isinstance(years, int | float) and 0 < years <= LONGEST_YEARS):  # false for NaN too
        raise UsageError(f"years is a number above 0, and at most {LONGEST_YEARS}")
    if not (isinstance(visits_per_person, int | float) and 1 <= visits_per_person <= _MOST_VISITS):
        raise UsageError(f"visits_per_person is a number from 1 to {_MOST_VISITS:,}")
    counts = None
    if city is not None:
        counts = _counts(city_of(city).dataset, chosen)
        people, places = people or counts.people, places or counts.places
    if people is None or places is None:
        raise UsageError("a plan needs a city, or the numbers of people and places: people=50_000, places=20_000")
    if counts is None or features is not None:
        counts = Counts.assumed(people, places, features or FEATURES)
    counts = replace(counts, people=people, places=places, visits=float(visits_per_person))
    return make_plan(chosen, counts, years=years)


def _counts(dataset: "Dataset", settings: Settings) -> "Counts":
    """The public size of a city, before anything is collected."""
    from prirec.features.columns import Columns
    from prirec.simulate.privacy_plan import Counts
    from prirec.simulate.setup import encoding_before

    encoding = encoding_before(dataset, settings)
    return Counts(len(dataset.people), len(dataset.places), len(encoding.names()), Columns.of(encoding).size)


def forecast(
    city: City | Path | str | None = None,
    *,
    people: int | None = None,
    places: int = 2000,
    visits_per_person: float = 20.0,
    epsilons: Sequence[float] | None = None,
    settings: Settings | PresetName | None = None,
    train: bool = False,
    threads: int | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    training_progress: "Callable[[str, IterationReport | None], None] | None" = None,
) -> "Forecast":
    """How accurate noisy popularity is, before any collection: simulated on a city, or on a made-up one.

    As the settings plan it, and by every mechanism at each of `epsilons`, with the whole budget spent on popularity.
    With `train`, a model is trained on the city as planned, and one without a budget, to compare them; of a made-up
    city on some of its people, with the noise of all of them. `progress` is called before each simulation with how many
    are done, of how many, and its name; `training_progress` as in `prirec.compare`.
    """
    from prirec.data.prepare import prepare
    from prirec.privacy.plan import with_parts
    from prirec.simulate.forecast import forecast as simulate
    from prirec.simulate.forecast import made_up, made_up_for_many, train_both
    from prirec.simulate.privacy_plan import make_plan
    from prirec.simulate.setup import recipe
    from prirec.util.keyed_random import generator

    chosen = settings_of(settings)
    promised = chosen.privacy.epsilon_per_user
    if (city is None) == (people is None):
        raise UsageError("a forecast needs a city, or the number of people of a made-up one, and not both")
    if train and promised is None:
        raise PolicyError("training compares a plan with none, and these settings promise nothing: use 'private'")
    if city is None:
        prepared = made_up(people=people or 0, places=places, visits_per_person=visits_per_person, seed=chosen.seed)
        dataset = prepared.dataset
    else:
        dataset = city_of(city).dataset
        prepared = prepare(dataset, recipe(chosen.data, labelled=dataset.labelled), generator(chosen.seed, "data"))
    counts = replace(_counts(dataset, chosen), people=len(prepared.dataset.people), places=len(prepared.dataset.places))
    chosen = with_parts(chosen, people=counts.people, places=counts.places, size=counts.size)
    found = simulate(
        prepared,
        epsilons_per_user=[promised or 1.0] if epsilons is None else epsilons,
        delta=chosen.privacy.delta,
        seed=chosen.seed,
        settings=chosen,
        progress=progress if progress is not None else lambda done, of, name: None,
    )
    if promised is not None:
        found = replace(found, plan=make_plan(chosen, counts))
    if train:
        report = training_progress if training_progress is not None else lambda name, passed: None
        training, as_planned = dataset, chosen
        if city is None:
            training, as_planned = made_up_for_many(
                chosen, people=people or 0, places=places, visits_per_person=visits_per_person
            )
        found = replace(found, trained=train_both(training, as_planned, threads=threads_of(threads), progress=report))
    return found


def read_ledger(file: Path | str, settings: Settings | PresetName | None = None) -> "Account":
    """What a device has spent on what, and what is left of the budget that the settings give; the file is only read.

    A `prirec.Device` knows its own budget: `device.account()`.
    """
    from prirec.device.ledger import ledger_in
    from prirec.privacy.ledger import Budget, account

    budget = Budget.of(settings_of(settings))
    today = (datetime.now(UTC) - datetime.fromtimestamp(0, UTC)).days
    return account(ledger_in(Path(file)), budget=budget, day=today)
