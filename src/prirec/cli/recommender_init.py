"""prirec recommender init: a new deployment."""

import shlex
from typing import Annotated

import typer

from prirec.cli.options import examples
from prirec.cli.recommender_store import CertificateFolder, Hosts, StoreName, certificates

EPILOG = examples(
    "prirec recommender init town.db --title Springfield --host recommender.example",
    "prirec recommender init postgresql://prirec@db.example/prirec --title Springfield",
)


def init(
    store: StoreName,
    *,
    title: Annotated[str, typer.Option(metavar="TEXT", help="What people are shown when their devices join.")],
    hosts: Hosts = None,
    folder: CertificateFolder = None,
) -> None:
    """Found a deployment: its keys, its certificates and an empty store.

    Certificates come from an authority of the deployment's own, which devices are handed. Without --host they are for
    this machine's name; they are always for localhost as well."""
    from datetime import UTC, datetime
    from socket import gethostname

    from prirec.recommender.beginning import found, refuse_odd_title, refuse_second
    from prirec.recommender.standing import fingerprint
    from prirec.recommender.store import Store
    from prirec.recommender.tls import refuse_odd

    made, names = certificates(folder, store), hosts or [gethostname()]
    refuse_odd_title(title)
    refuse_odd(names)
    with Store.open(store) as opened:
        refuse_second(opened)
        made.make(title=title, hosts=names, now=datetime.now(UTC))
        founding = found(opened, title=title)
    typer.echo(f"founded; keys and certificates are in {made.folder} and in the store: both are secret but for")
    typer.echo(f"  authority    {made.authority}")
    typer.echo(f"  fingerprint  {fingerprint(founding.identity)}")
    typer.echo("which devices are handed, the fingerprint by a way that people trust")
    typer.echo(f"next: {_next('publish', store, 'DATA')}; then {_next('serve', store)}")


def _next(*words: str) -> str:
    from prirec.cli.output import program

    return shlex.join((*program(), "recommender", *words))
