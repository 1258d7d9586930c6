"""Comparing models on one city: `prirec.compare`, and reports on a comparison or a fit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from prirec.api.cities import City, city_of
from prirec.api.fits import Fit, frame_of, threads_of
from prirec.config import Settings, flat
from prirec.errors import UsageError
from prirec.util.shown import SIMULATION, Shown, Table, counted, number

if TYPE_CHECKING:
    import polars as pl

    from prirec.engines.state import IterationReport
    from prirec.evaluate.intervals import Judged
    from prirec.simulate.compare import Contender, Entry, Model

ModelLike: TypeAlias = "str | Settings | Model | type[Model]"  # a name, settings, or a model of one's own


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
    city = city_of(city)
    return Comparison(city, compared(city, contenders_of(models, dict(flat(changes))), threads, progress))


def contenders_of(
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


def compared(
    city: City, contenders: "Sequence[Contender]", threads: int | None,
    progress: "Callable[[str, IterationReport | None], None] | None",
) -> "tuple[Entry, ...]":  # fmt: skip
    from prirec.simulate.compare import compare as run

    report = (lambda one, passed: progress(one.name, passed)) if progress is not None else (lambda one, passed: None)
    return run(city.dataset, contenders, threads=threads_of(threads), progress=report)


def expected_iterations(model: "ModelLike") -> int:
    """How many iterations a model reports at most, for a progress bar: 1 for one that reports none."""
    from prirec.simulate.compare import contender

    found = contender(model)
    return found.settings.iterations if found.model is None else 1


def refuse_report(path: Path | None = None, *, data: Path | None = None, out: Path | None = None) -> None:
    """UsageError, before any work, if no report can be drawn here, or of these data, or be written to this file. The
    folder `out` is there by the time it is written."""
    from prirec.data.sources import is_partitioned
    from prirec.evaluate.plots import require_matplotlib

    require_matplotlib()
    if data is not None and is_partitioned(data):
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
        from prirec.evaluate.intervals import Judged

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
        return frame_of(self.table)

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
        from prirec.evaluate.intervals import FELT, tested_on

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
