"""The front door: a city, settings, a fit, recommendations, a comparison, a privacy plan.

    city = prirec.read_folder("city")
    fit = prirec.fit(city, prirec.settings("private", iterations=20))
    fit.quality
    fit.recommend("u0007", near=(35.68, 139.76), k=10)
    fit.save("run")

All of this is simulation: one program holds everyone's data. `prirec.Device` and `prirec.Recommender` are the
deployment in which data stay on devices. What this file needs is imported where it is used, so that a privacy plan does
not wait for the compiler of the training loops.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from prirec.config import PresetName, Settings, apply, check, refuse_unused
from prirec.config import load as load_settings
from prirec.errors import PolicyError, StateError, UsageError
from prirec.util.shown import SIMULATION, Shown, Table, counted, number

if TYPE_CHECKING:
    import polars as pl

    from prirec.cluster.train import PartitionedRun
    from prirec.data.check import FolderCheck
    from prirec.data.dataset import Dataset
    from prirec.engines.state import IterationReport
    from prirec.engines.train import Checkpointing, Trained
    from prirec.evaluate.leak_evidence import Findings
    from prirec.evaluate.spread import Judged
    from prirec.metrics import Quality, RankQuality
    from prirec.model.scoring import Models
    from prirec.privacy.ledger import Account
    from prirec.protocols.prediction import Suggestion
    from prirec.recommender.release import StartingModel
    from prirec.simulate.compare import Contender, Entry, Model
    from prirec.simulate.forecast import Forecast
    from prirec.simulate.privacy_plan import Counts, PrivacyPlan
    from prirec.simulate.private_figures import PrivateFigures
    from prirec.simulate.recommend import Advisor
    from prirec.simulate.saved_runs import CityOfRun, Run
    from prirec.simulate.setup import CityDescription, Outcome, Setup

# A Polars or pandas frame, columns by name, or a list of rows. Any: pandas is no dependency, and has no types here.
TableLike: TypeAlias = Any
EngineName: TypeAlias = Literal["local", "plain", "protocol", "cluster"]
ModelLike: TypeAlias = "str | Settings | Model | type[Model]"  # a name, settings, or a model of one's own


# Data


class City(Shown):
    """People, places and visits: what a model is trained on.

    `visits` has the columns `user` and `poi`, and may have `time`, `label` (1 visited, 0 shown and ignored) and columns
    of its own; `pois` has `poi` and may have `lat`, `lon` and public columns; `users` has `user` and may have `lat`,
    `lon` (the home) and private columns. Each is a Polars or pandas frame, a mapping of columns, or a list of rows.
    `schema` says what is publicly known of private columns, in the form of schema.toml: {"users": {"age": {"low": 0,
    "high": 100}}}. Ids, times and coordinates under other names, such as user_id or latitude, are recognised. With
    `strict`, repeated visits are an error; otherwise they are left out and noted. With `skip_bad`, rows that are wrong
    are left out and counted in a note.
    """

    def __init__(
        self,
        visits: TableLike,
        pois: TableLike = None,
        users: TableLike = None,
        *,
        name: str = "city",
        schema: Mapping[str, Any] | None = None,
        strict: bool = False,
        skip_bad: bool = False,
    ) -> None:
        from prirec.data.folder import assemble, refuse_swapped
        from prirec.data.given_tables import table_of
        from prirec.data.schema import schema_from

        given = {"visits": visits, "pois": pois, "users": users}
        tables = {key: table_of(key, value) for key, value in given.items() if value is not None}
        if "visits" not in tables:
            raise UsageError("a city needs visits: a table with the columns 'user' and 'poi'")
        loaded = assemble(tables, schema=schema_from(schema or {}), name=name, strict=strict, skip_bad=skip_bad)
        refuse_swapped(loaded.dataset, users=Path("users"), pois=Path("pois"))
        self._dataset, self._notes, self._source = loaded.dataset, loaded.notes, f"the tables of '{name}'"

    @classmethod
    def of(cls, dataset: "Dataset", *, notes: Sequence[str] = (), source: str = "") -> "City":
        """A city from a data set that another part of PriRec has made or read."""
        city = cls.__new__(cls)
        city._dataset, city._notes, city._source = dataset, tuple(notes), source or dataset.name
        return city

    @property
    def dataset(self) -> "Dataset":
        """The columns as arrays: what the rest of PriRec works on."""
        return self._dataset

    @property
    def name(self) -> str:
        """What the city is called."""
        return self._dataset.name

    @property
    def source(self) -> str:
        """Where the data came from, as a saved run names it."""
        return self._source

    @property
    def people(self) -> tuple[str, ...]:
        """Ids of people."""
        return self._dataset.people.ids

    @property
    def places(self) -> tuple[str, ...]:
        """Ids of places."""
        return self._dataset.places.ids

    @property
    def records(self) -> int:
        """How many visits, or places shown and ignored, there are."""
        return len(self._dataset.visits)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out while reading, or looks odd, in sentences."""
        return tuple(self._notes)

    def describe(self, settings: Settings | PresetName | None = None) -> "CityDescription":
        """People, places, records and features (the paper's Table 2) after the filter that the settings name."""
        from prirec.simulate.setup import describe_city

        return describe_city(self._dataset, _settings(settings), notes=self._notes)

    def save(self, folder: Path | str, *, format: Literal["csv", "parquet"] = "csv") -> Path:  # noqa: A002
        """Write the city as a data folder, which `prirec.read_folder` and every command read."""
        from prirec.data.write_folder import write_folder

        write_folder(self._dataset, Path(folder), table_format=format)
        return Path(folder)

    def panels(self) -> Iterator[str | Table]:
        kind = "labelled record" if self._dataset.labelled else "visit"
        located = "" if self._dataset.places.location is not None else ", places without coordinates"
        yield (
            f"City '{self.name}': {counted(len(self.people), 'person')}, {counted(len(self.places), 'place')}, "
            f"{counted(self.records, kind)}{located}"
        )


def read_folder(folder: Path | str, *, strict: bool = False, skip_bad: bool = False) -> City:
    """Read a data folder: `visits` and, if there are any, `pois`, `users` and schema.toml.

    docs/how-to/your-own-data.md describes such folders. With `strict`, repeated visits are an error; otherwise they are
    left out and noted. With `skip_bad`, rows that are wrong are left out and counted in a note.
    """
    from prirec.data.folder import read_folder as read

    loaded = read(Path(folder), strict=strict, skip_bad=skip_bad)
    return City.of(loaded.dataset, notes=loaded.notes, source=str(folder))


def check_folder(folder: Path | str, *, skip_bad: bool = False) -> "FolderCheck":
    """Everything that is wrong or doubtful about a data folder, at once, and a proposed schema.toml.

    With `skip_bad`, rows that are wrong are not problems, but counted among what is doubtful: they would be left out.
    """
    from prirec.data.check import check_folder as check

    return check(Path(folder), skip_bad=skip_bad)


def make_city(
    people: int = 2000, *, places: int | None = None, records: int | None = None, seed: int = 0, **shape: Any
) -> City:
    """Make up a city with homes, places, tastes and visits; the same arguments give the same city.

    By default there are two places for five people and 40 records a person. `shape` takes the other fields of
    prirec.data.synthetic.CityPlan: districts, categories, span_km, centre, ignored_per_click, days.
    """
    from prirec.data.synthetic import CityPlan
    from prirec.data.synthetic import make_city as make
    from prirec.util.keyed_random import generator
    from prirec.util.sentences import suggest

    known = set(CityPlan.__dataclass_fields__) - {"people", "places", "records"}
    for name in shape:
        if name not in known:
            raise UsageError(f"a made-up city has no '{name}'; {suggest(name, known)}")
    _refuse_no_count("people", people)
    # a small city still has a place for each of its districts
    districts = shape.setdefault("districts", min(12, places if places is not None else max(2 * people // 5, 1)))
    plan = CityPlan(
        people=people,
        places=places if places is not None else max(2 * people // 5, districts),
        records=records if records is not None else 40 * people,
        **shape,
    )
    return City.of(make(plan, generator(seed, "city")), source=f"made up with seed {seed}")


# Settings


def settings(
    preset: PresetName | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    file: Path | str | None = None,
    **named: Any,
) -> Settings:
    """Settings from a preset ("private" by default, "rounds", "paper" or "fm"), changed by name.

    Changes are keywords, `iterations=20` or a section, `features={"areas": 12}`; or a mapping of dotted names,
    {"features.areas": 12}. `file` is a settings file (TOML), which is read before changes. Unknown names, values out of
    range, settings that such a training would not read, and combinations that break a promise are refused.
    """
    flat: dict[str, Any] = {} if preset is None else {"preset": preset}
    for key, value in (*_flat(changes or {}), *_flat(named)):
        if key in flat:
            raise UsageError(f"the setting '{key}' is given twice")
        flat[key] = value
    chosen = load_settings(None if file is None else Path(file), changes=flat)
    refuse_unused(chosen)
    return chosen


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


# Training


def fit(
    city: City | Path | str,
    settings: Settings | PresetName | None = None,
    *,
    engine: EngineName = "local",
    threads: int | None = None,
    address: str | None = None,
    actors: int | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: int = 5,
    resume: bool = True,
    out: Path | str | None = None,
    overwrite: bool = False,
    progress: "Callable[[IterationReport], None] | None" = None,
) -> "Fit":
    """Prepare a city, train on it, and measure on the test records.

    `settings` are those of `prirec.settings`, or a preset's name; "private" by default. `engine` is "local" (fast),
    "plain" (slow and readable), "protocol" (every message of the secure sums) or "cluster" (rounds on Ray, at `address`
    with so many `actors`); all give the same bits. With a `checkpoint`, an interrupted training goes on where it was
    saved last, every `checkpoint_every` iterations; `resume=False` starts over. With `out` the fit is saved to that
    folder, and the checkpoint removed. `progress` is called after each iteration.

    A folder that `prirec data partition` has made is trained by a cluster part by part, so that no machine holds all of
    it; such a fit needs `out`.
    """
    with Training(
        city, settings, engine=engine, threads=threads, address=address, actors=actors, checkpoint=checkpoint,
        checkpoint_every=checkpoint_every, resume=resume, out=out, overwrite=overwrite,
    ) as training:  # fmt: skip
        return training.run(progress=progress)


class Training:
    """A training that is prepared and not begun: what `prirec.fit`, which has the same arguments, runs.

    It is for programs that show the plan, or what is unusual, before anything is trained:

        with prirec.Training("city", "private", checkpoint="half.checkpoint") as training:
            print(training.plan)
            fit = training.run()
    """

    def __init__(
        self,
        city: City | Path | str,
        settings: Settings | PresetName | None = None,
        *,
        engine: EngineName = "local",
        threads: int | None = None,
        address: str | None = None,
        actors: int | None = None,
        checkpoint: Path | str | None = None,
        checkpoint_every: int = 5,
        resume: bool = True,
        out: Path | str | None = None,
        overwrite: bool = False,
        strict: bool = False,
        skip_bad: bool = False,
    ) -> None:
        from prirec.simulate.saved_runs import refuse_occupied

        self._chosen, self._engine, self._threads, self._actors, self._address = (
            _settings(settings), engine, _threads(threads), actors, address,
        )  # fmt: skip
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._every, self._resume = checkpoint_every, resume
        self._out, self._overwrite = None if out is None else Path(out), overwrite
        self._stack = ExitStack()
        self._partitioned: PartitionedRun | None = None
        self.resumed_at = 0
        self._refuse_unfit(threads=threads)
        if self._out is not None:
            refuse_occupied(self._out, overwrite=overwrite)  # before any work, not after it
        if engine == "cluster" and isinstance(city, str | Path) and _is_partitioned(Path(city)):
            self._prepare_partitioned(Path(city), strict=strict)
        else:
            self._prepare(_city(city, strict=strict, skip_bad=skip_bad))

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()  # actors and the connection to a cluster

    def _refuse_unfit(self, *, threads: int | None) -> None:
        """Before any data are read: arguments that do not go together, and a cluster that is out of reach."""
        if self._engine == "cluster":
            from prirec.cluster.pool import import_ray, refuse_unreachable
            from prirec.cluster.train import refuse_unfit

            if threads is not None:
                raise UsageError("threads belong to one machine; on a cluster give actors")
            refuse_unfit(self._chosen)
            import_ray()
            if self._address is not None:
                refuse_unreachable(self._address)
        elif self._address is not None or self._actors is not None:
            raise UsageError(f"{'address' if self._address is not None else 'actors'} belongs to engine 'cluster'")
        elif self._engine != "local" and self._chosen.schedule == "centralised":
            raise UsageError(f"engine '{self._engine}' has no meaning here: the centralised model has one engine")
        if self._checkpoint is not None:
            from prirec.engines.train import refuse_folder

            refuse_folder(self._checkpoint)

    def _prepare(self, city: City) -> None:
        from prirec.engines.train import CheckpointFile
        from prirec.simulate.privacy_plan import Counts, make_plan
        from prirec.simulate.setup import set_up, settings_notes

        self._city = city
        self._setup = setup = set_up(city.dataset, self._chosen)
        self.settings, samples = setup.settings, setup.samples
        self.plan = make_plan(self.settings, Counts.of(samples))
        self.notes = (*settings_notes(self.settings, before=self._chosen), *_plan_notes(self.plan))
        self._data_notes = (*city.notes, *setup.prepared.notes)
        if (checkpointing := self._checkpointing) is not None:
            file = CheckpointFile.of(checkpointing, samples, self.settings)
            self.resumed_at = file.resumed_iteration(self.settings, resume=self._resume)

    def _prepare_partitioned(self, folder: Path, *, strict: bool) -> None:
        from prirec.cluster.pool import cluster_cpus, ray_session
        from prirec.cluster.train import open_partitioned
        from prirec.simulate.privacy_plan import Counts, make_plan
        from prirec.simulate.setup import reporting_notes

        if strict:
            raise UsageError("strict needs all records in one place; check them with `prirec data describe` first")
        if self._out is None:
            raise UsageError(
                "a partitioned folder is trained part by part, and shards save the run: give out, a folder"
            )
        self._source, self._shard_folder = str(folder), self._out
        with ExitStack() as stack:  # closed again if anything fails on the way: nobody has entered this training yet
            stack.enter_context(ray_session(self._address, cpus=self._actors))
            actors = self._actors if self._actors is not None else cluster_cpus()
            away = self._partitioned = stack.enter_context(open_partitioned(folder, self._chosen, actors=actors))
            if (checkpointing := self._checkpointing) is not None:
                file = away.checkpoint_file(checkpointing)
                self.resumed_at = file.resumed_iteration(away.city.settings, resume=self._resume)
            self._stack = stack.pop_all()
        city = away.city
        self.settings, features = city.settings, len(city.encoding.names())
        counts = Counts(city.amounts.people, len(city.places), features, city.columns.size)
        self.plan = make_plan(self.settings, counts)
        self.notes = (*reporting_notes(self.settings), *_plan_notes(self.plan))
        unread = ("what an operator would read of the quality is not computed over parts",)
        self._data_notes = (*city.notes, *(unread if self.settings.privacy.quality else ()))

    def run(self, progress: "Callable[[IterationReport], None] | None" = None) -> "Fit":
        """Train, measure and, where there is an `out`, save. `progress` is called after each iteration."""
        checkpointing = self._checkpointing
        report = progress if progress is not None else lambda passed: None
        found = (
            self._run(checkpointing, report)
            if self._partitioned is None
            else self._run_partitioned(self._partitioned, checkpointing, report)
        )
        if self._out is not None and self._checkpoint is not None:
            self._checkpoint.unlink(missing_ok=True)
        return found

    @property
    def _checkpointing(self) -> "Checkpointing | None":
        from prirec.engines.train import Checkpointing

        return None if self._checkpoint is None else Checkpointing(self._checkpoint, every=self._every)

    def _run(
        self, checkpointing: "Checkpointing | None", progress: "Callable[[IterationReport], None]"
    ) -> "Fit":  # fmt: skip
        from prirec.simulate.setup import history_notes, quality_notes, run

        with self._trainer() as trainer:
            outcome = run(
                self._setup, engine=self._engine, threads=self._threads, checkpointing=checkpointing,
                progress=progress, trainer=trainer,
            )  # fmt: skip
        notes = (
            *self.notes, *self._data_notes, *history_notes(outcome.trained.history, settings=self.settings),
            *quality_notes(outcome.quality, self._setup),
        )  # fmt: skip
        found = Fit.of(self._city, outcome, notes=notes, resumed_at=self.resumed_at)
        if self._out is not None:
            found.save(self._out, overwrite=self._overwrite)
        found._add_operator_notes()  # once it is saved: figures that cannot be read must not cost a training
        return found

    @contextmanager
    def _trainer(self) -> "Iterator[Callable[..., Trained] | None]":
        """The cluster's function in the place of an engine, with a connection that lasts as long as the training."""
        if self._engine != "cluster":
            yield None
            return
        from prirec.cluster.pool import cluster_cpus, ray_session
        from prirec.cluster.train import train

        with ray_session(self._address, cpus=self._actors):
            yield partial(train, actors=self._actors if self._actors is not None else cluster_cpus())

    def _run_partitioned(
        self, away: "PartitionedRun", checkpointing: "Checkpointing | None",
        progress: "Callable[[IterationReport], None]",
    ) -> "Fit":  # fmt: skip
        """The run is saved by the shards; what is in it is loaded when it is first asked for."""
        from prirec.simulate.saved_runs import load_run
        from prirec.simulate.setup import history_notes

        trained = away.train(checkpointing=checkpointing, progress=progress)
        quality = away.quality(trained)
        away.save(self._shard_folder, trained, source=self._source)
        events = history_notes(trained.history, settings=self.settings)
        return Fit(
            self.settings, self.plan.counts, trained.history, city=None, quality=quality,
            run=partial(load_run, self._shard_folder), notes=(*self.notes, *self._data_notes, *events),
            resumed_at=self.resumed_at,
        )  # fmt: skip


def _plan_notes(plan: "PrivacyPlan") -> tuple[str, ...]:
    """What to know about a plan before anything is spent."""
    return (*plan.notes, *(() if plan.noise is None else plan.noise.notes()))


def _is_partitioned(folder: Path) -> bool:
    from prirec.data.sources import is_partitioned

    return is_partitioned(folder)


# Fits


def load(folder: Path | str, city: City | Path | str | None = None) -> "Fit":
    """A fit that `Fit.save` or `prirec train` has written.

    A saved run holds models, settings and history, not the data. Without a city those can be looked at; to recommend or
    to measure, give the city that it was trained on: for recommending it may have grown since. StateError if the folder
    is damaged, or if the city is another one.
    """
    from prirec.features.columns import Columns
    from prirec.simulate.privacy_plan import Counts
    from prirec.simulate.saved_runs import load_run, refuse_another_city

    run = load_run(Path(folder))
    found = None if city is None else _city(city)
    if found is not None:
        refuse_another_city(run, found.dataset.places)
    counts = Counts(len(run.people), len(run.released.places), len(run.encoding.names()), Columns.of(run.encoding).size)
    notes = () if found is None else found.notes
    return Fit(run.settings, counts, run.history, city=found, run=lambda: run, notes=notes)


class Fit(Shown):
    """A trained model: what `prirec.fit` and `prirec.load` return."""

    def __init__(
        self,
        settings: Settings,
        counts: "Counts",
        history: "Sequence[IterationReport]",
        *,
        city: City | None,
        run: "Callable[[], Run]",
        outcome: "Outcome | None" = None,
        quality: "Quality | None" = None,
        notes: Sequence[str] = (),
        resumed_at: int = 0,
    ) -> None:
        self._settings, self._counts, self._history = settings, counts, History(history)
        self._city, self._run, self._outcome, self._quality = city, run, outcome, quality
        self._notes, self._resumed_at = tuple(dict.fromkeys(notes)), resumed_at
        self._advisor: Advisor | None = None

    @classmethod
    def of(cls, city: City, outcome: "Outcome", *, notes: Sequence[str] = (), resumed_at: int = 0) -> "Fit":
        """The fit of a training in this process."""
        from prirec.simulate.privacy_plan import Counts
        from prirec.simulate.saved_runs import to_run

        setup = outcome.setup
        counts = Counts.of(setup.samples)
        return cls(
            setup.settings, counts, outcome.trained.history, city=city, run=lambda: to_run(outcome, city.source),
            outcome=outcome, quality=outcome.quality, notes=notes, resumed_at=resumed_at,
        )  # fmt: skip

    @property
    def city(self) -> City | None:
        """The city that it recommends in; None for a saved run that was loaded without one."""
        return self._city

    @property
    def settings(self) -> Settings:
        """As they were used: where the parts of the budget were left to the plan, with these parts."""
        return self._settings

    @property
    def history(self) -> "History":
        """Loss, participation and opened sums of each iteration."""
        return self._history

    @property
    def people(self) -> tuple[str, ...]:
        """Ids of the people whom it can recommend to: those of the city whom the filter data.keep left in."""
        return self._outcome.setup.samples.ids if self._outcome is not None else self._on_city.ids

    @property
    def typical_person(self) -> str:
        """The id of a person with the median number of training records."""
        from prirec.simulate.recommend import typical_row

        counts = self._outcome.setup.samples.train.counts() if self._outcome is not None else self._on_city.counts()
        return self.people[typical_row(counts)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the settings or figures would not expect, in sentences."""
        return self._notes

    @property
    def resumed_at(self) -> int:
        """The iteration of the checkpoint that training went on from; 0 if it was trained in one go."""
        return self._resumed_at

    @cached_property
    def quality(self) -> "Quality":
        """AUC, log loss, GAUC and the AUC of people with few records, on records that the model never saw.

        Of a loaded run it is measured anew, on the city that it was trained on: StateError where records were added,
        which it may have learnt from, and UsageError where test records have influenced the training (`leaks`).
        """
        return self._measured.quality if self._quality is None else self._quality

    @cached_property
    def leaks(self) -> "Findings":
        """Findings of the leak checker: refused (test records influenced training), or flagged (figures mean less)."""
        from prirec.evaluate.leaks import check

        return check(self._tested)

    @property
    def quality_notes(self) -> tuple[str, ...]:
        """What makes the quality figures less meaningful, in sentences."""
        from prirec.simulate.setup import quality_notes

        return (*quality_notes(self.quality, self._tested), *(f"{one.name}: {one.words}" for one in self.leaks))

    @cached_property
    def plan(self) -> "PrivacyPlan":
        """What these settings promise each person of this city, and the noise that it takes; see `prirec.plan`."""
        from prirec.simulate.privacy_plan import make_plan

        return make_plan(self._settings, self._counts)

    @cached_property
    def noise_note(self) -> str:
        """How many people these settings take, in a sentence, where noise drowns much of what these people add; empty
        where it does not, where there is none, and for a run that was loaded without its city."""
        from prirec.simulate.privacy_plan import drowned_by_noise

        if self._settings.privacy.epsilon_per_user is None or (self._outcome is None and self._city is None):
            return ""
        return drowned_by_noise(self._tested.prepared, self._settings, self._counts)

    @property
    def operator_quality(self) -> "PrivateFigures | None":
        """The quality figures that a recommender would read off a noisy sum, beside the true ones; None where
        privacy.quality gives them no part of the budget, or where the noise leaves nothing to read."""
        return self._operator[0]

    @cached_property
    def _operator(self) -> "tuple[PrivateFigures | None, tuple[str, ...]]":
        from prirec.simulate.private_figures import operator_figures

        if not self._settings.privacy.quality or (self._outcome is None and self._city is None):
            return None, ()
        return operator_figures(self._tested, self._models)

    def _add_operator_notes(self) -> None:
        """Say in `notes` why an operator could read no quality figures, if that is so."""
        self._notes = (*self._notes, *self._operator[1])

    def recommend(
        self,
        person: str,
        *,
        near: tuple[float, float] | None = None,
        at: datetime | str | int | None = None,
        k: int = 10,
        radius_km: float = 5.0,
    ) -> "Suggestions":
        """Algorithm 3: the k best places for a person, with reasons; places that the person has visited are left out.

        `near` is (latitude, longitude), by default the person's home. `at` is a local time: a datetime, text such as
        "2024-05-04T19:30", or seconds since 1970 on the wall clock; by default no particular time. Places farther than
        `radius_km` come only where there are too few near.
        """
        from prirec.protocols.prediction import Moment
        from prirec.simulate.recommend import advise, notes_on_distance, notes_on_moment, origin_of, refuse_remote

        if near is not None and (isinstance(near, str) or not isinstance(near, Sequence) or len(near) != 2):
            raise UsageError("near is a pair of degrees: (latitude, longitude)")
        if near is not None:
            from prirec.device.person import checked_point  # only here: it loads what devices need

            near = checked_point(*near)
        moment = Moment(near, _wall_clock(at))
        _refuse_no_count("k, how many places to suggest,", k)
        if not isinstance(radius_km, int | float) or not 0 <= radius_km < math.inf:
            raise UsageError("radius_km is a number that is not negative")
        advisor, row = self._advisor_of(person)
        refuse_remote(advisor, moment, radius_km=radius_km)
        places = advise(advisor, row, moment=moment, k=k, radius_km=radius_km)
        notes = [
            *notes_on_moment(advisor, moment),
            *notes_on_distance(advisor, row, places, moment=moment, k=k, radius_km=radius_km),
        ]
        return Suggestions(person, places, distance_from=origin_of(advisor, row, moment), notes=notes)

    def rank(
        self,
        *,
        k: int = 10,
        radius_km: float = 5.0,
        candidates: Literal["matched", "all"] = "matched",
        people: int = 500,
    ) -> "RankQuality":
        """Hit rate, NDCG and recall at k of the lists of some people, drawn by the seed; with 95 % intervals over
        people, and the NDCG of exact popularity alone.

        Candidates are the places near home ("matched") or the whole catalogue ("all").
        """
        from prirec.evaluate.spread import list_intervals
        from prirec.simulate.compare import PopularityAlone, rank_model
        from prirec.simulate.recommend import Advisor, ranked

        setup = self._tested
        asked: Any = {"k": k, "radius_km": radius_km, "candidates": candidates, "people": people}
        figures = ranked(Advisor.of(setup, self._models), **asked)
        popular = rank_model(PopularityAlone().fit(setup), setup, name=PopularityAlone.name, **asked).mean()
        return replace(
            figures.mean(), ndcg_popularity=popular.ndcg,
            intervals=list_intervals(figures, people=len(setup.samples.ids)),
        )  # fmt: skip

    def against(
        self,
        models: "Sequence[ModelLike] | Mapping[str, ModelLike]",
        *,
        threads: int | None = None,
        progress: "Callable[[str, IterationReport | None], None] | None" = None,
    ) -> "Comparison":
        """This model beside others, such as ["fm-tuned", "popularity"], which are trained now: on the same records,
        with the same features and seed. A loaded run needs the city that it was trained on, as for `quality`."""
        from prirec.simulate.compare import entry_of

        used: dict[str, Any] = {"seed": self._settings.seed}
        for section in ("data", "features"):
            table = getattr(self._settings, section)
            used |= {f"{section}.{name}": getattr(table, name) for name in table.__struct_fields__}
        contenders = _contenders(models, used, taken=[self._settings.preset])  # refused before any work
        own = entry_of(self._measured)
        city = _city(self._city if self._city is not None else City.of(self._dataset()))
        return Comparison(city, (own, *_compared(city, contenders, threads, progress)))

    def save(self, folder: Path | str, *, overwrite: bool = False, source: str | None = None) -> Path:
        """Write models, settings, history and released popularity to a folder that `prirec.load` and commands read.

        Whole or not at all. `source` names the data in it, by default as they were named when the city was read. It
        holds everyone's own model: a simulation's file, not one that a deployment has.
        """
        from prirec.simulate.saved_runs import save_run

        save_run(Path(folder), self.run if source is None else replace(self.run, source=source), overwrite=overwrite)
        return Path(folder)

    @property
    def starting_model(self) -> "StartingModel":
        """For `Recommender.publish(start=...)`: the shared model with its scales, settings and popularity, for devices
        to recommend with before any campaign. It is published as it is, and the noise of a simulation follows from its
        seed: take it from public data, or from people who agreed."""
        import numpy as np

        from prirec.model.scoring import SharedModels
        from prirec.recommender.release import StartingModel

        run = self.run
        if not isinstance(run.models, SharedModels):
            raise UsageError(
                "a starting model is one that rounds have trained; train with the preset rounds or private"
            )
        popularity = {name: np.array(values) for name, values in run.released.columns.items()}
        return StartingModel(
            run.settings, run.encoding, run.models.shared, run.models.moments, run.released.places, popularity
        )

    def report(self, path: Path | str) -> Path:
        """Write one HTML page with figures, plots, a map, and places for one person. Needs prirec[report] (matplotlib).

        It holds statistics of records and homes, and recommendations for somebody: as private as the data themselves.
        A loaded run needs the city that it was trained on, as for `quality`.
        """
        from prirec.simulate.compare import entry_of

        refuse_report(Path(path))
        from prirec.evaluate.report import advise_typical_person, write_report

        outcome = self._measured
        promise = [] if self._settings.privacy.epsilon_per_user is None else [self.plan.verdict]
        write_report(
            Path(path), city=self._dataset(), entries=(entry_of(outcome),),
            advice=advise_typical_person(*self._advisor_of(self.typical_person)),
            notes=tuple(dict.fromkeys((*promise, *self.notes, *outcome.setup.prepared.notes, *self.quality_notes))),
        )  # fmt: skip
        return Path(path)

    @cached_property
    def run(self) -> "Run":
        """All that a saved run holds: models, encoding, released popularity, history."""
        return self._run()

    @cached_property
    def _measured(self) -> "Outcome":
        """With the figures on the test records; see `quality`."""
        from prirec.evaluate.leaks import refuse
        from prirec.simulate.saved_runs import trained_again
        from prirec.simulate.setup import Outcome

        if self._outcome is not None:
            return self._outcome
        refuse(self.leaks)
        return Outcome.of(self._tested, trained_again(self.run))

    @property
    def _models(self) -> "Models":
        return self._outcome.trained.models if self._outcome is not None else self.run.models

    @cached_property
    def _tested(self) -> "Setup":
        """The set-up with the test records that were held back from the model."""
        return self._outcome.setup if self._outcome is not None else self._on_city.set_up()

    @cached_property
    def _on_city(self) -> "CityOfRun":
        """A loaded run on its city."""
        from prirec.simulate.saved_runs import CityOfRun

        return CityOfRun.of(self._dataset(), self.run)

    def _advisor_of(self, person: str) -> "tuple[Advisor, int]":
        """Who recommends to this person, and the person's row there: after a training somebody who advises everyone, of
        a loaded run one person at a time."""
        from prirec.simulate.recommend import Advisor, row_of

        row = row_of(person, self.people)
        if self._outcome is not None:
            if self._advisor is None:
                self._advisor = Advisor.knowing_all_visits(self._outcome.setup, self._models)
            return self._advisor, row
        setup, models = self._on_city.set_up_alone(int(self._on_city.order[row]))
        before = self._advisor
        self._advisor = Advisor.knowing_all_visits(setup, models) if before is None else before.alone(setup, models)
        return self._advisor, 0

    def _dataset(self) -> "Dataset":
        if self._city is None:
            raise StateError(
                "a saved run holds no data: load it together with its city, as in prirec.load(folder, city), to "
                "recommend or to measure"
            )
        return self._city.dataset

    def panels(self) -> Iterator[str | Table]:
        settings = self._settings
        where = f"'{self._city.name}'" if self._city is not None else f"a city that is not loaded ({self.run.source})"
        people, iterations = counted(self._counts.people, "person"), counted(len(self._history), "iteration")
        yield f"Fit of '{settings.preset}' on {where}: {people}, {iterations}."
        if (q := self._quality) is not None:
            yield f"AUC {q.auc:.4f}, log loss {q.log_loss:.4f} on {counted(q.records, 'test record')}."
        if settings.privacy.epsilon_per_user is not None:
            yield self.plan.verdict
        yield SIMULATION


class History(Shown, Sequence["IterationReport"]):
    """The iterations of a training, as a sequence of reports."""

    def __init__(self, reports: "Sequence[IterationReport]") -> None:
        self._reports = tuple(reports)

    @overload
    def __getitem__(self, at: int) -> "IterationReport": ...
    @overload
    def __getitem__(self, at: slice) -> "History": ...
    def __getitem__(self, at: int | slice) -> "IterationReport | History":
        return History(self._reports[at]) if isinstance(at, slice) else self._reports[at]

    def __len__(self) -> int:
        return len(self._reports)

    def to_dict(self) -> list[dict[str, Any]]:
        """One mapping for each iteration, ready for JSON."""
        import msgspec

        return [msgspec.to_builtins(report) for report in self._reports]

    def to_polars(self) -> "pl.DataFrame":
        """One row for each iteration."""
        return _polars(self.to_dict())

    def panels(self) -> Iterator[str | Table]:
        if not self._reports:
            yield "No iteration yet."
            return
        first, last = self._reports[0], self._reports[-1]
        yield f"{counted(len(self), 'iteration')}: training loss from {first.loss:.4f} to {last.loss:.4f}."
        shown = self._reports if len(self) <= 12 else (*self._reports[:6], *self._reports[-6:])
        yield Table((">iteration", ">loss", ">took part", ">in the sum over everyone"), [
            (
                f"{one.iteration:,}", f"{one.loss:.4f}", f"{one.took_part:,}",
                f"{one.in_sum:,}" if one.opened else "not opened",
            )
            for one in shown
        ])  # fmt: skip


class Suggestions(Shown, Sequence["Suggestion"]):
    """Places for one person, best first, each with its probability and its reasons.

    A reason is a phrase; its `pull`, which `to_dict` has too, says how far a group of features lifts (+) or lowers
    (-) this place against the mean nearby.
    """

    def __init__(
        self, person: str, places: "Sequence[Suggestion]", *, distance_from: str | None, notes: Sequence[str] = ()
    ) -> None:
        self.person, self.distance_from, self.notes = person, distance_from, tuple(notes)
        self._places = tuple(places)

    @overload
    def __getitem__(self, at: int) -> "Suggestion": ...
    @overload
    def __getitem__(self, at: slice) -> "Suggestions": ...
    def __getitem__(self, at: int | slice) -> "Suggestion | Suggestions":
        if isinstance(at, slice):
            return Suggestions(self.person, self._places[at], distance_from=self.distance_from, notes=self.notes)
        return self._places[at]

    def __len__(self) -> int:
        return len(self._places)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: the person, the places with reasons, what distances are from, and notes."""
        return {
            "person": self.person,
            "places": [place.to_dict() for place in self._places],
            "distance_from": self.distance_from,
            "notes": list(self.notes),
        }

    def to_polars(self) -> "pl.DataFrame":
        """One row for each place; reasons as a list of (name, pull, words)."""
        return _polars([{"rank": at, **place.to_dict()} for at, place in enumerate(self._places, start=1)])

    def panels(self) -> Iterator[str | Table]:
        if not self._places:
            yield f"Nothing to recommend to {self.person}: every place that matches has been visited."
            return
        yield f"Places for {self.person}, best first{(self.distance_from and f'; km from {self.distance_from}') or ''}:"
        yield Table((">", "place", "about", ">km", ">chance", "why"), [
            (
                str(at), place.place, place.about,
                "" if place.distance_km is None else f"{place.distance_km:.1f}",
                f"{100 * place.probability:.0f} %", place.why,
            )
            for at, place in enumerate(self._places, start=1)
        ])  # fmt: skip


# Comparing


def compare(
    city: City | Path | str,
    models: "Sequence[ModelLike] | Mapping[str, ModelLike]",
    *,
    threads: int | None = None,
    progress: "Callable[[str, IterationReport | None], None] | None" = None,
    **changes: Any,
) -> "Comparison":
    """Train several models on one city, on the same records, and measure them on the same test records.

    A model is a preset's name, "fm-tuned" (centralised FM whose K, learning rate, passes and regularisation are chosen
    on held-out training records of this city), "popularity" (exact counts alone), settings, the name of a model that an
    installed package registers (entry points `prirec.models`), or a model of your own: a class or an object with a
    method `fit` (docs/how-to/own-model.md). A mapping names them. `changes` are settings that all presets and
    registered models share: seed=1, iterations=5. Settings as they are test on records drawn at random; where there are
    times, data={"split": "time"} asks about later ones.
    `progress` is called with the name of a model and None when its turn comes, then with the report of each iteration.
    """
    city = _city(city)
    return Comparison(city, _compared(city, _contenders(models, dict(_flat(changes))), threads, progress))


def _contenders(
    models: "Sequence[ModelLike] | Mapping[str, ModelLike]", changes: Mapping[str, Any], *, taken: Sequence[str] = ()
) -> "list[Contender]":
    """Named models under these changes; UsageError for none, or for a name that is there twice or is taken."""
    from prirec.simulate.compare import contender

    if isinstance(models, str) or not isinstance(models, Mapping | Sequence) or not models:
        raise UsageError('name the models to compare, such as ["fm", "private"]')
    given = list(models.items()) if isinstance(models, Mapping) else [(None, model) for model in models]
    contenders = [contender(model, name=name, changes=changes) for name, model in given]
    names = [*taken, *(one.name for one in contenders)]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"two models are called '{name}'; give a mapping of names to models")
    return contenders


def _compared(
    city: City, contenders: "Sequence[Contender]", threads: int | None,
    progress: "Callable[[str, IterationReport | None], None] | None",
) -> "tuple[Entry, ...]":  # fmt: skip
    from prirec.simulate.compare import compare as run

    report = (lambda one, passed: progress(one.name, passed)) if progress is not None else (lambda one, passed: None)
    return run(city.dataset, contenders, threads=_threads(threads), progress=report)


def expected_iterations(model: "ModelLike") -> int:
    """How many iterations a model reports at most, for a progress bar: 1 for one that reports none."""
    from prirec.simulate.compare import contender

    found = contender(model)
    return found.settings.iterations if found.model is None else 1


def refuse_report(path: Path | None = None, *, data: Path | None = None, out: Path | None = None) -> None:
    """UsageError, before any work, if no report can be drawn here, or of these data, or be written to this file. The
    folder `out` is there by the time it is written."""
    from prirec.evaluate.plots import require_matplotlib

    require_matplotlib()
    if data is not None and _is_partitioned(data):
        raise UsageError("a report needs all data on one machine, and a partitioned folder is read part by part")
    if path is not None and (out is None or path.absolute().parent != out.absolute()):
        from prirec.evaluate.report import refuse_unwritable

        refuse_unwritable(path)


class Comparison(Shown):
    """Several models on one city: what `prirec.compare` returns. `comparison["private"]` is that model's Fit."""

    def __init__(self, city: City, entries: "Sequence[Entry]") -> None:
        self.city, self.entries = city, tuple(entries)

    @cached_property
    def judged(self) -> "Judged":
        """All figures with 95 % intervals over people, and differences between models."""
        from prirec.evaluate.spread import Judged

        return Judged(self.entries)

    def __getitem__(self, name: str) -> Fit:
        from prirec.simulate.setup import Outcome

        for entry in self.entries:
            if entry.contender.name == name and isinstance(entry.outcome, Outcome):
                return Fit.of(self.city, entry.outcome, notes=self.city.notes)
        known = ", ".join(f"'{entry.contender.name}'" for entry in self.entries if entry.trained is not None)
        raise UsageError(f"there is no fit of '{name}' in this comparison; there are {known or 'none'}")

    @property
    def table(self) -> list[dict[str, Any]]:
        """One row for each model: its name, figures over all test records (AUC, log loss, AUC of few, GAUC, seen pairs
        and the AUC of new ones), of lists among the places near home (NDCG, recall, hit rate at 10, AUC nearby) with
        how many `people` have one, 95 % intervals over people (`ndcg_low`, `ndcg_high` and so on), seconds, what it
        collects, and what was chosen for it, if anything was."""
        return [
            {
                "model": entry.contender.name,
                **entry.outcome.quality.to_dict(),
                **entry.ranked.mean().to_dict(),
                **{f"{name}_low": figures[name].low for name in ("ndcg", "recall", "auc_nearby", "gauc", "auc")},
                **{f"{name}_high": figures[name].high for name in ("ndcg", "recall", "auc_nearby", "gauc", "auc")},
                "seconds": entry.seconds,
                "collects": entry.contender.collects,
                "chosen": None if entry.chosen is None else entry.chosen.to_dict(),
            }
            for entry, figures in zip(self.entries, self.judged.estimates, strict=True)
        ]

    def to_polars(self) -> "pl.DataFrame":
        """The table as a frame."""
        return _polars(self.table)

    def report(self, path: Path | str) -> Path:
        """Write one HTML page with figures, plots, a map, and places for one person. Needs prirec[report] (matplotlib).

        It holds statistics of records and homes: a page about a simulation.
        """
        refuse_report(Path(path))
        from prirec.evaluate.report import advise_typical_person, write_report

        fits = [entry.contender.name for entry in self.entries if entry.trained is not None]
        last = self[fits[-1]] if fits else None
        advice = None if last is None else advise_typical_person(*last._advisor_of(last.typical_person))
        write_report(
            Path(path), city=self.city.dataset, entries=self.entries, advice=advice, notes=self.city.notes,
            judged=self.judged,
        )  # fmt: skip
        return Path(path)

    def panels(self, *, seconds: bool = True) -> Iterator[str | Table]:
        """Lists among the places nearby first, then all test records; without `seconds` the same models print the same
        text."""
        from prirec.evaluate.spread import FELT, tested_on

        rows, timed = self.table, (">seconds",) if seconds else ()
        split = self.entries[0].outcome.setup
        yield (
            f"{counted(len(rows), 'model')} on '{self.city.name}', tested on "
            f"{counted(rows[0]['records'], 'record')}: {tested_on(split)}."
        )
        yield Table(("model", *(f">{title}" for title in FELT.values())), [
            (row["model"], *(str(figures[name]) for name in FELT))
            for row, figures in zip(rows, self.judged.estimates, strict=True)
        ], title="What a person feels, ± 95 % over people")  # fmt: skip
        yield (
            f"NDCG and recall: lists of ten new places near home, for {counted(rows[0]['people'], 'person')}. AUC "
            "nearby: a new place against those around it. GAUC: AUC within each person."
        )
        if worth := self.judged.worth():
            yield worth
        new = (">new pairs",) if any(row["seen"] for row in rows) else ()
        yield Table(("model", ">AUC", *new, ">log loss", ">AUC of few", *timed, "what it collects"), [
            (
                row["model"], number(row["auc"]), *(number(row["auc_new"]) for _ in new),
                number(row["log_loss"]), number(row["auc_few"]),
                *((f"{row['seconds']:.1f}",) if seconds else ()), row["collects"],
            )
            for row in rows
        ], title="All test records")  # fmt: skip
        yield "AUC of few: the quarter of people with fewest records."
        if new:
            yield (
                f"New pairs: AUC without the {100 * rows[0]['seen']:.1f} % of test records whose person and place are "
                "in a training record together, which a device may remember."
            )
        for entry in self.entries:
            if entry.chosen is not None:
                yield (
                    f"'{entry.contender.name}' has {entry.chosen.words}: the best of {entry.chosen.tried} settings and "
                    "of all passes by AUC on a tenth of the training records, held out."
                )
        yield SIMULATION


# Privacy plans


def plan(
    city: City | Path | str | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    people: int | None = None,
    places: int | None = None,
    features: int | None = None,
    rounds: int | None = None,
    years: float | None = None,
    settings: Settings | PresetName | None = None,
) -> "PrivacyPlan":
    """What each person would be promised, the noise that this takes, and whether it is usable, before any collection.

    From a city, or from the numbers of people, places and features (50 unless given); a number that is given goes
    before the city's. `epsilon`, `delta` and `rounds` change the settings, which are "private" by default. `years` adds
    the periods up where the settings give the budget to each privacy.period_days. Nothing is computed from anyone's
    records.
    """
    from prirec.simulate.privacy_plan import FEATURES, LONGEST_YEARS, Counts, make_plan

    chosen = _settings(settings)
    budget = {"epsilon_per_user": epsilon, "delta": delta}
    changes: dict[str, Any] = {"privacy": {name: value for name, value in budget.items() if value is not None}}
    if rounds is not None:
        changes["iterations"] = rounds
    chosen = check(apply(chosen, changes))
    for name, value in (("people", people), ("places", places), ("features", features)):
        if value is not None:
            _refuse_no_count(name, value)
    if years is not None and not (isinstance(years, int | float) and 0 < years <= LONGEST_YEARS):  # false for NaN too
        raise UsageError(f"years is a number above 0, and at most {LONGEST_YEARS}")
    counts = None
    if city is not None:
        counts = _counts(_city(city).dataset, chosen)
        people, places = people or counts.people, places or counts.places
    if people is None or places is None:
        raise UsageError("a plan needs a city, or the numbers of people and places: people=50_000, places=20_000")
    if counts is None or features is not None:
        counts = Counts.assumed(people, places, features or FEATURES)
    return make_plan(chosen, replace(counts, people=people, places=places), years=years)


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

    chosen = _settings(settings)
    promised = chosen.privacy.epsilon_per_user
    if (city is None) == (people is None):
        raise UsageError("a forecast needs a city, or the number of people of a made-up one, and not both")
    if train and promised is None:
        raise PolicyError("training compares a plan with none, and these settings promise nothing: use 'private'")
    if city is None:
        prepared = made_up(people=people or 0, places=places, visits_per_person=visits_per_person, seed=chosen.seed)
        dataset = prepared.dataset
    else:
        dataset = _city(city).dataset
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
        found = replace(found, trained=train_both(training, as_planned, threads=_threads(threads), progress=report))
    return found


def read_ledger(file: Path | str, settings: Settings | PresetName | None = None) -> "Account":
    """What a device has spent on what, and what is left of the budget that the settings give; the file is only read.

    A `prirec.Device` knows its own budget: `device.account()`.
    """
    from prirec.device.ledger import ledger_in
    from prirec.privacy.ledger import Budget, account

    budget = Budget.of(_settings(settings))
    today = (datetime.now(UTC) - datetime.fromtimestamp(0, UTC)).days
    return account(ledger_in(Path(file)), budget=budget, day=today)


# Arguments


def _city(given: City | Path | str, *, strict: bool = False, skip_bad: bool = False) -> City:
    if isinstance(given, City):
        return given
    if isinstance(given, str | Path):
        return read_folder(given, strict=strict, skip_bad=skip_bad)
    raise UsageError(
        f"a city is a prirec.City or the path of a data folder, not {type(given).__name__}; prirec.City(visits=...) "
        "makes one from tables"
    )


def _settings(given: Settings | PresetName | None) -> Settings:
    if given is None or isinstance(given, str):
        return settings(given)
    if isinstance(given, Settings):
        return given
    raise UsageError(f"settings come from prirec.settings(...) or are a preset's name, not {type(given).__name__}")


def _refuse_no_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} is a whole number of at least 1")


def _threads(given: int | None) -> int:
    return given if given is not None else os.cpu_count() or 1


def _wall_clock(at: datetime | str | int | None) -> int | None:
    """Seconds since 1970 on the local wall clock: an offset from UTC is dropped, as it is from visits."""
    if at is None or (isinstance(at, int) and not isinstance(at, bool)):
        return at
    if isinstance(at, str):
        try:
            at = datetime.fromisoformat(at)
        except ValueError:
            raise UsageError('at takes a date and a local time, such as "2024-05-04T19:30"') from None
    if not isinstance(at, datetime):
        raise UsageError('at is a datetime, text such as "2024-05-04T19:30", or seconds since 1970')
    return int(at.replace(tzinfo=UTC).timestamp())


def _polars(rows: list[dict[str, Any]]) -> "pl.DataFrame":
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)
