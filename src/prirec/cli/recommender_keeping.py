"""prirec recommender backup and keys rotate: what an operator does to keep a deployment going."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from prirec.cli.options import examples
from prirec.cli.recommender_store import CertificateFolder, Hosts, StoreName, certificates, opened

EPILOG_BACKUP = examples("prirec recommender backup town.db town-2024-05-04.db")
EPILOG_KEYS = examples("prirec recommender keys rotate town.db")
EPILOG_ROTATE = examples(
    "prirec recommender keys rotate town.db",
    "prirec recommender keys rotate town.db --only certificate --host recommender.example",
)


def backup(
    store: StoreName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the copy; it holds the secret keys.")],
) -> None:
    """Copy a store that is a file, while the service goes on.

    Messages that are under way are left out of the copy."""
    from prirec.errors import UsageError
    from prirec.recommender.backing_up import back_up
    from prirec.recommender.database import file_of

    source = file_of(store)
    if source is None:
        raise UsageError("a database is copied by its own means, such as pg_dump --schema=prirec")
    with opened(store):
        entries = back_up(source, file)
    typer.echo(f"copied to {file}; its log has {entries:,} entries")
    typer.echo("it may be put back only while the log has no more: devices follow no log that was cut short")


def rotate(
    store: StoreName,
    *,
    only: Annotated[
        Literal["sessions", "certificate"] | None,
        typer.Option(show_default="both", help="The key of sessions, or the server's certificate."),
    ] = None,
    hosts: Hosts = None,
    folder: CertificateFolder = None,
) -> None:
    """Replace the key of sessions and the server's certificate.

    Devices notice nothing: they trust the authority, and open new sessions by themselves. The recommender's identity
    stays: devices pinned it, and it signs the log."""
    from datetime import UTC, datetime

    from prirec.errors import UsageError
    from prirec.recommender.beginning import rotate_sessions

    if hosts and only == "sessions":
        raise UsageError("--host is for the certificate; leave it out, or leave out --only")
    with opened(store) as held:
        if only != "sessions":
            files = certificates(folder, store)
            files.renew(hosts=hosts or [], now=datetime.now(UTC))
            typer.echo(f"new certificate and key: {files.certificate}")
        if only != "certificate":
            rotate_sessions(held)
            typer.echo("new key of sessions")
    typer.echo("restart the service: it reads both when it starts")
