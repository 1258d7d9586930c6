"""prirec recommender publish: the places that devices learn about."""

import typer

from prirec.cli.options import Assignments, DataFolder, Json, SettingsFile, examples
from prirec.cli.recommender_store import StoreName, opened

EPILOG = examples("prirec recommender publish town.db town", "prirec recommender publish town.db town --json")


def publish(
    store: StoreName,
    data: DataFolder,
    *,
    file: SettingsFile = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Publish a catalogue: the pois of a data folder, by region.

    Only pois and schema.toml are read. Private columns are those that schema.toml declares as users and visits: devices
    are asked for them, and keep them. Campaigns that begin from now on use it; one that is under way keeps its own."""
    from prirec.cli.output import notes, show_json
    from prirec.cli.privacy_settings import budget_settings
    from prirec.cli.progress import busy
    from prirec.contract.campaign import deployable
    from prirec.recommender.beginning import publish as put
    from prirec.recommender.publishing import from_folder

    settings = deployable(budget_settings(preset=None, file=file, assignments=assignments))
    with opened(store) as held:
        with busy("reading the places"):
            source = from_folder(data, settings.features)
        catalogue = put(held, source)
    asked = {
        "of_people": [block.column for block in source.encoding.person],
        "of_visits": [block.column for block in source.encoding.context],
    }
    regions = len(catalogue.manifest.regions)
    if json:
        show_json({
            "places": len(catalogue.known), "regions": regions, "manifest": catalogue.name.hex(), "asked": asked,
            "notes": source.notes,
        })  # fmt: skip
        return
    notes(source.notes)
    typer.echo(f"published {len(catalogue.known):,} places in {regions:,} regions")
    for words, columns in (("a person", asked["of_people"]), ("a visit", asked["of_visits"])):
        typer.echo(f"devices use, of {words}: {', '.join(columns) or 'nothing'}; none of it leaves them")
