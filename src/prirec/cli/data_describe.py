"""prirec data describe: Table 2 for a data folder."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prirec.cli.options import DataFolder, Json, Strict, examples

if TYPE_CHECKING:
    from prirec.data.dataset import Dataset

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
    from prirec.cli.output import notes, printable, show_json, show_table
    from prirec.cli.progress import busy
    from prirec.data.describe import describe as count
    from prirec.data.folder import read_folder

    with busy("counting"):
        loaded = read_folder(data, strict=strict)
        kept, left_out = _kept(loaded.dataset, keep=keep)
        description, features = count(kept), _features(kept)
    told, ids = (*loaded.notes, *left_out), kept.people.ids[:people]
    if json:
        listed = {"people_ids": ids} if people else {}
        show_json({**description.as_dict(), "features": features, "filter": keep, "notes": told, **listed})
        return
    rows = description.rows()
    rows.insert(3, ("#feature", f"{features:,}"))
    show_table((str(data), ""), rows)
    notes(told)
    listing = "people: " + ", ".join(printable(name) for name in ids)
    typer.echo(listing if people else "ids of people are private and not shown; --people 3 lists 3")


def _kept(dataset: "Dataset", *, keep: Literal["paper", "none"]) -> tuple["Dataset", list[str]]:
    from prirec.data.recipe import filtered
    from prirec.evaluate.experiment import recipe
    from prirec.settings import Data

    data = Data(keep="paper" if keep == "paper" else "all")
    kept, told = filtered(dataset, recipe(data, labelled=dataset.labelled))
    return kept, told if len(kept.visits) else [*told, "nothing is left to describe; --filter none describes all"]


def _features(dataset: "Dataset") -> int:
    """D, with plain counts, as the preset rounds would encode these data if all of them were learnt from."""
    from prirec.features.planning import plan
    from prirec.features.popularity import plain_counts
    from prirec.settings import Features

    settings = Features()
    counts = plain_counts(dataset.visits, places=len(dataset.places), recent_days=settings.recent_days)
    return len(plan(dataset, counts, settings).names())
