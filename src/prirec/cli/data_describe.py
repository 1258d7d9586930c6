"""prirec data describe: Table 2 for a data folder."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prirec.cli.options import Assignments, DataFolder, Json, SettingsFile, Strict, examples

if TYPE_CHECKING:
    from prirec.data.dataset import Dataset
    from prirec.settings import Data, Features

EPILOG = examples(
    "prirec data describe city",
    "prirec data describe city --filter none --json",
    "prirec data describe city --set data.at_least=3 --set features.words=10",
)


def describe(
    data: DataFolder,
    *,
    keep: Annotated[
        Literal["paper", "none"] | None,
        typer.Option(
            "--filter",
            show_default="data.keep: paper",
            help="The paper's filter of people and places with few records, or none.",
        ),
    ] = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    people: Annotated[int, typer.Option(min=0, metavar="N", help="List N ids of people; they are private.")] = 0,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Count people, places, records and features (Table 2)."""
    from prirec.cli.choosing import choose
    from prirec.cli.output import notes, printable, show_json, show_table
    from prirec.cli.progress import busy
    from prirec.data.describe import describe as count
    from prirec.data.folder import read_folder

    flags = {"data.keep": {"none": "all"}.get(keep, keep) if keep else None}
    settings = choose(preset=None, file=file, assignments=assignments, flags=flags)
    with busy("counting"):
        loaded = read_folder(data, strict=strict)
        kept, left_out = _kept(loaded.dataset, settings.data)
        description, features = count(kept), _features(loaded.dataset, kept, settings.features)
    told, ids = (*loaded.notes, *left_out), kept.people.ids[:people]
    if json:
        listed = {"people_ids": ids} if people else {}
        used = {"all": "none"}.get(settings.data.keep, settings.data.keep)
        show_json({**description.as_dict(), "features": features, "filter": used, "notes": told, **listed})
        return
    rows = description.rows()
    rows.insert(3, ("#feature", f"{features:,}"))
    show_table((str(data), ""), rows)
    notes(told)
    listing = "people: " + ", ".join(printable(name) for name in ids)
    typer.echo(listing if people else "ids of people are private and not shown; --people 3 lists 3")


def _kept(dataset: "Dataset", data: "Data") -> tuple["Dataset", list[str]]:
    from prirec.data.recipe import filtered
    from prirec.evaluate.experiment import recipe

    kept, told = filtered(dataset, recipe(data, labelled=dataset.labelled))
    return kept, told if len(kept.visits) else [*told, "nothing is left to describe; --filter none describes all"]


def _features(dataset: "Dataset", kept: "Dataset", settings: "Features") -> int:
    """D, with plain counts, if all that is kept were learnt from; columns as in training, before any filter."""
    import numpy as np

    from prirec.data.recipe import Prepared
    from prirec.evaluate.counting import count
    from prirec.features.planning import plan
    from prirec.settings import Settings

    nothing = kept.visits.take(np.zeros(0, dtype=np.int64))
    counts = count(Prepared(kept, kept.visits, nothing), Settings(features=settings))
    return len(plan(dataset, counts, settings).names())
