"""prirec data describe: Table 2 for a data folder."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prirec.cli.options import DataFolder, Json, Strict, examples

if TYPE_CHECKING:
    from prirec.data.dataset import Dataset
    from prirec.data.recipe import Prepared

EPILOG = examples("prirec data describe city", "prirec data describe city --filter none --json")


def describe(
    data: DataFolder,
    *,
    keep: Annotated[
        Literal["paper", "none"],
        typer.Option("--filter", help="The paper's filter of people and places with few records, or none."),
    ] = "paper",
    people: Annotated[int, typer.Option(min=0, metavar="N", help="List N ids of people; they are private.")] = 0,
    strict: Strict = False,
    json: Json = False,
) -> None:
    """Count people, places, records and features (Table 2)."""
    from prirec.cli.output import notes, show_json, show_table
    from prirec.cli.progress import busy
    from prirec.data.describe import describe as count
    from prirec.data.folder import read_folder

    with busy("counting"):
        loaded = read_folder(data, strict=strict)
        prepared = _prepared(loaded.dataset, keep=keep)
        description, features = count(prepared.dataset), _features(prepared)
    told, ids = (*loaded.notes, *prepared.notes), prepared.dataset.people.ids[:people]
    if json:
        listed = {"people_ids": ids} if people else {}
        show_json({**description.as_dict(), "features": features, "filter": keep, "notes": told, **listed})
        return
    rows = description.rows()
    rows.insert(3, ("#feature", f"{features:,}"))
    show_table((str(data), ""), rows)
    notes(told)
    typer.echo("people: " + ", ".join(ids) if people else "ids of people are private and not shown; --people 3 lists 3")


def _prepared(dataset: "Dataset", *, keep: Literal["paper", "none"]) -> "Prepared":
    from prirec.data.recipe import prepare
    from prirec.engines.randomness import generator
    from prirec.evaluate.experiment import recipe
    from prirec.settings import Data

    data = Data(keep="paper" if keep == "paper" else "all")
    return prepare(dataset, recipe(data, labelled=dataset.labelled), generator(0, "data"))


def _features(prepared: "Prepared") -> int:
    """D, as the default settings would encode these data."""
    from prirec.evaluate.experiment import count
    from prirec.features.planning import plan
    from prirec.settings import Features

    return len(plan(prepared.dataset, count(prepared, Features()), Features()).names())
