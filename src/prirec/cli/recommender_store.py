"""What the commands of a recommender's operator have in common: the store, and where its certificates are."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from prirec.recommender.certificates import Certificates
    from prirec.recommender.store import Store

StoreName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="STORE", help="The deployment's file, or a database: postgresql://user@host/name."),
]
Hosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="NAME", help="Name or address by which devices reach the server; repeatable."),
]
CertificateFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--certificates", metavar="FOLDER", show_default="STORE.tls", help="Where the certificates and their keys are."
    ),
]


def opened(store: str) -> "Store":
    """The store of a deployment that was founded. StateError, and no file made, if there is none."""
    from prirec.errors import StateError
    from prirec.recommender.database import file_of
    from prirec.recommender.store import Store

    file = file_of(store)
    if file is not None and not file.exists():
        raise StateError(f"there is no store {file.name}; prirec recommender init makes one")
    held = Store.open(store)
    try:
        held.founding()
    except BaseException:
        held.close()
        raise
    return held


def certificates(folder: Path | None, store: str) -> "Certificates":
    from prirec.recommender.certificates import Certificates

    return Certificates.beside(store) if folder is None else Certificates(folder)
