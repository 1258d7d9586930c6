"""prirec recommender serve: the service that devices use, and beside it the conductor of rounds."""

from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.options import examples
from prirec.cli.recommender_store import StoreName, certificates, opened

EPILOG = examples(
    "prirec recommender serve town.db --host 0.0.0.0",
    "prirec recommender serve postgresql://prirec@db.example/prirec --workers 4 --port 443",
)
CODE = "PRIREC_ENROLMENT_CODE"
LONGEST_CODE = 100


def serve(
    store: StoreName,
    *,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen; 0.0.0.0 is everywhere.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="0 takes one that is free.")] = 8443,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="STORE.tls/server.pem", help="PEM, with its chain.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="STORE.tls/server.key", help="PEM, without a password.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Processes on this machine.")] = 1,
    coming: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long invited devices have to come to a sum.")
    ] = 300.0,
    step: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long those who came have for each step.")
    ] = 30.0,
    code: Annotated[
        str | None,
        typer.Option("--enrolment-code", envvar=CODE, metavar="TEXT", help="Only who knows it may enrol."),
    ] = None,
) -> None:
    """Serve devices, and conduct rounds, until stopped.

    Ctrl-C or SIGTERM stop it in good order. Logs go to the standard error stream, one JSON object a line, with nothing
    about anyone. Any number of machines may serve one PostgreSQL database: one of them conducts at a time.

    Without an enrolment code whoever reaches the service may enrol; the first line of the log says which it is."""
    from functools import partial

    from prirec.cli.extras import needing

    with needing("recommender"):
        from prirec.recommender import logs
        from prirec.recommender.serving import Worker
        from prirec.recommender.serving import serve as run
    from prirec.recommender.conducting import conduct
    from prirec.recommender.gathering import Pace

    opened(store).close()
    _refuse_odd(code, certificate=certificate, key=key)
    files = certificates(None, store)
    worker = Worker(
        store,
        certificate=certificate or files.certificate,
        key=key or files.key,
        conduct=partial(conduct, pace=Pace(coming, step), tell=logs.told),
        code=code,
    )
    run(worker, host=host, port=port, workers=workers)


def _refuse_odd(code: str | None, *, certificate: Path | None, key: Path | None) -> None:
    from os import environ

    from prirec.errors import UsageError

    if (certificate is None) != (key is None):
        raise UsageError("--certificate and --key belong together: give both, or neither")
    if code is None and CODE in environ:  # one that is empty does not get here, and would let everybody in
        raise UsageError(f"{CODE} is set and empty; give a code in it, or unset it to let anybody enrol")
    if code is not None and not 0 < len(code) <= LONGEST_CODE:
        raise UsageError(f"an enrolment code has 1 to {LONGEST_CODE} characters")
