"""prirec device: the commands of one person's device."""

import typer

from prirec.cli import (
    device_init,
    device_keeping,
    device_profile,
    device_recommend,
    device_run,
    device_visit,
)
from prirec.cli.group import subgroup
from prirec.cli.options import examples

EPILOG = examples(
    "prirec device init phone.db --url https://recommender.example:8443 --authority authority.pem",
    "prirec device visit phone.db noodle-bar",
    "prirec device recommend phone.db",
)


def build() -> typer.Typer:
    """The commands and their names."""
    made = subgroup("One person's device: what it knows stays in one file.", epilog=EPILOG)
    made.command("init", epilog=device_init.EPILOG)(device_init.init)
    made.command("profile", epilog=device_profile.EPILOG)(device_profile.profile)
    made.command("visit", epilog=device_visit.EPILOG)(device_visit.visit)
    made.command("run", epilog=device_run.EPILOG)(device_run.run)
    made.command("download", epilog=device_run.EPILOG_DOWNLOAD)(device_run.download)
    made.command("recommend", epilog=device_recommend.EPILOG)(device_recommend.recommend)
    made.command("status", epilog=device_keeping.EPILOG_STATUS)(device_keeping.status)
    made.command("privacy", epilog=device_keeping.EPILOG_PRIVACY)(device_keeping.privacy)
    made.command("export", epilog=device_keeping.EPILOG_EXPORT)(device_keeping.export)
    made.command("forget", epilog=device_keeping.EPILOG_FORGET)(device_keeping.forget)
    return made
