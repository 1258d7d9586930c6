"""Training on a city: `prirec.fit`, and the Fit that it returns, which recommends, measures and is saved."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from prirec.api.cities import City, city_of, refuse_no_count
from prirec.config import PresetName, Settings, settings_of
from prirec.errors import StateError, UsageError
from prirec.util.shown import SIMULATION, Shown, Table, counted

if TYPE_CHECKING:
    import polars as pl

    from prirec.api.comparisons import Comparison, ModelLike
    from prirec.cluster.train import PartitionedRun
    from prirec.data.dataset import Dataset
    from prirec.engines.state import IterationReport
    from prirec.engines.train import Checkpointing, Trained
    from prirec.evaluate.leak_evidence import Findings
    from prirec.metrics import Quality, RankQuality
    from prirec.model.scoring import Models
    from prirec.protocols.prediction import Suggestion
    from prirec.recommender.release import StartingModel
    from prirec.simulate.privacy_plan import Counts, PrivacyPlan
    from prirec.simulate.private_figures import PrivateFigures
    from prirec.simulate.recommend import Advisor
    from prirec.simulate.saved_runs import CityOfRun, Run
    from prirec.simulate.setup import Outcome, Setup

EngineName: TypeAlias = Literal["local", "plain", "protocol", "cluster"]


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
        from prirec.data.sources import is_partitioned
        from prirec.simulate.saved_runs import refuse_occupied

        self._chosen, self._engine, self._threads, self._actors, self._address = (
            settings_of(settings), engine, threads_of(threads), actors, address,
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
        if engine == "cluster" and isinstance(city, str | Path) and is_partitioned(Path(city)):
            self._prepare_partitioned(Path(city), strict=strict)
        else:
            self._prepare(city_of(city, strict=strict, skip_bad=skip_bad))

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
    found = None if city is None else city_of(city)
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
        """Settings of the training, with the parts of the budget that the plan chose."""
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
        """Id of a person with the median number of training records."""
        from prirec.simulate.recommend import typical_row

        counts = self._outcome.setup.samples.train.counts() if self._outcome is not None else self._on_city.counts()
        return self.people[typical_row(counts)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about data, settings and figures, in sentences."""
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
        """A warning where noise drowns much of what these people add: how many people these settings need. Empty where
        it does not, without noise, and for a run that was loaded without its city."""
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
        refuse_no_count("k, how many places to suggest,", k)
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
        from prirec.evaluate.intervals import list_intervals
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
        from prirec.api.comparisons import Comparison, compared, contenders_of
        from prirec.simulate.compare import entry_of

        used: dict[str, Any] = {"seed": self._settings.seed}
        for section in ("data", "features"):
            table = getattr(self._settings, section)
            used |= {f"{section}.{name}": getattr(table, name) for name in table.__struct_fields__}
        contenders = contenders_of(models, used, taken=[self._settings.preset])  # refused before any work
        own = entry_of(self._measured)
        city = city_of(self._city if self._city is not None else City.of(self._dataset()))
        return Comparison(city, (own, *compared(city, contenders, threads, progress)))

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
        from prirec.api.comparisons import refuse_report
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


def threads_of(given: int | None) -> int:
    """So many threads, by default one for each core."""
    return given if given is not None else os.cpu_count() or 1


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
        return frame_of(self.to_dict())

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
        return frame_of([{"rank": at, **place.to_dict()} for at, place in enumerate(self._places, start=1)])

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


def frame_of(rows: list[dict[str, Any]]) -> "pl.DataFrame":
    """One row for each mapping."""
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)
