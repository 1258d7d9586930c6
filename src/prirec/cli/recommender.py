"""prirec recommender: the commands of whoever runs a deployment."""

import typer

from prirec.cli import (
    recommender_init,
    recommender_keeping,
    recommender_publish,
    recommender_rounds,
    recommender_serve,
    recommender_status,
)
from prirec.cli.group import subgroup
from prirec.cli.options import examples

EPILOG = examples(
    "prirec recommender init town.db --title Springfield --host recommender.example",
    "prirec recommender serve town.db --host 0.0.0.0",
    "prirec recommender status town.db",
)


def build() -> typer.Typer:
    """The commands and their names."""
    made = subgroup("Run a deployment: found it, serve devices, begin campaigns.", epilog=EPILOG)
    made.command("init", epilog=recommender_init.EPILOG)(recommender_init.init)
    made.command("publish", epilog=recommender_publish.EPILOG)(recommender_publish.publish)
    made.command("serve", epilog=recommender_serve.EPILOG)(recommender_serve.serve)
    rounds = subgroup("Campaigns and their sums.", epilog=recommender_rounds.EPILOG)
    rounds.command("begin", epilog=recommender_rounds.EPILOG_BEGIN)(recommender_rounds.begin)
    rounds.command("list", epilog=recommender_rounds.EPILOG_LIST)(recommender_rounds.listing)
    rounds.command("end", epilog=recommender_rounds.EPILOG_END)(recommender_rounds.end)
    made.add_typer(rounds, name="rounds")
    made.command("status", epilog=recommender_status.EPILOG)(recommender_status.status)
    made.command("backup", epilog=recommender_keeping.EPILOG_BACKUP)(recommender_keeping.backup)
    keys = subgroup("Keys and certificates.", epilog=recommender_keeping.EPILOG_KEYS)
    keys.command("rotate", epilog=recommender_keeping.EPILOG_ROTATE)(recommender_keeping.rotate)
    made.add_typer(keys, name="keys")
    return made
