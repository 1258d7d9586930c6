"""prirec helper: the commands of the second operator. Each parses flags, calls `prirec.recommender` and prints."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.commands import add_commands, subgroup
from prirec.cli.options import Json, examples
from prirec.cli.output import program, show_json, show_table
from prirec.cli.recommender import (
    LAST_PORT,
    CertificateFile,
    CertificateFolder,
    CopyOfStore,
    Hosts,
    KeyFile,
    ListenAddress,
    ListenPort,
    NextFingerprint,
    OperatorAddress,
    StoreName,
    key_rows,
    moment,
    show_token,
    window_rows,
)
from prirec.util.shown import counted, printable
from prirec.util.system import disable_core_dumps


def init(
    store: StoreName,
    *,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Who runs this helper; shown by its status.")] = "helper",
    hosts: Hosts = None,
    folder: CertificateFolder = None,
) -> None:
    """Create a helper: keys, certificates and an empty store.

    Somebody other than the recommender's operator must run it: then people need to trust only one of the two."""
    from prirec.recommender.recommender import Helper

    with Helper.create(store, title=title, hosts=hosts or (), certificates=folder) as made:
        files, fingerprint, token = made.certificates, made.fingerprint, made.new_operator_token()
    typer.echo(f"created; keys are in the store and in {files.folder}: both are secret. The recommender needs")
    typer.echo(f"  authority    {files.authority}")
    typer.echo(f"  key          {fingerprint}")
    typer.echo("publish the key where people trust it")
    show_token(token)
    typer.echo("next: prirec recommender init with --helper, which prints what pairs this helper with it")


def pair(
    store: StoreName,
    *,
    deployment: Annotated[str, typer.Option(metavar="ID", help="The deployment's id, 32 hexadecimal digits.")],
    recommender_key: Annotated[
        str, typer.Option(metavar="KEY", help="The recommender's whole fingerprint, 64 hexadecimal digits.")
    ],
) -> None:
    """Pair this helper with its deployment. It cannot be paired with another one later."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store) as helper:
        helper.pair(deployment=deployment, recommender=recommender_key)
    typer.echo(f"paired; next: {shlex.join((*program(), 'helper', 'serve', store))}")


def rotate_key(store: StoreName) -> None:
    """Make the helper's next key, which will co-sign the log.

    It is in force once the recommender's operator has compared its fingerprint and approved it (prirec recommender
    approve-key), between two campaigns. Devices follow by themselves. Run again, this command shows the same key."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store) as helper:
        helper.check_paired()
        key = helper.rotate_key()
    typer.echo(f"next key     {key}")
    typer.echo("tell it to the recommender's operator, who approves it there between two campaigns:")
    typer.echo(f"  {shlex.join((*program(), 'recommender', 'approve-key', 'STORE', key))}")
    typer.echo("then copy this store: one from before lacks the key, and cannot follow the log any more")


def approve_key(store: StoreName, key: NextFingerprint) -> None:
    """Approve the recommender's next key, by its fingerprint.

    The helper then signs the rotation to this key and to no other. Take the fingerprint from the recommender's
    operator, not from the recommender."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store) as helper:
        helper.approve_key(key)
    typer.echo("approved; its operator goes on with: prirec recommender rotate-key STORE --finish KEY")


def serve(
    store: StoreName,
    *,
    host: ListenAddress = "127.0.0.1",
    port: ListenPort = 8443,
    operator_host: OperatorAddress = "127.0.0.1",
    operator_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=LAST_PORT, metavar="N", help="Port of /operator and /metrics; without it neither is served."
        ),
    ] = None,
    certificate: CertificateFile = None,
    key: KeyFile = None,
) -> None:
    """Answer the recommender, until stopped. Devices send nothing to a helper.

    Ctrl-C or SIGTERM stop it after the request under way is answered. Logs go to the standard error stream, one JSON
    object a line, without anything about a person."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store) as helper:
        helper.check_paired()
    operator = None if operator_port is None else (operator_host, operator_port)
    helper.serve(host=host, port=port, operator=operator, certificate=certificate, key=key)


def status(store: StoreName, *, json: Json = False) -> None:
    """Show the deployment, its campaign and the signed log."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store) as helper:
        found = helper.status()
    if json:
        shown = asdict(found)
        if shown["campaign"] is not None:
            shown["campaign"].pop("past")
        show_json(shown)
        return
    typer.echo(printable(f"{found.title}: {found.verdict}"))
    of = found.campaign
    show_table(("", ""), [
        ("deployment", found.deployment or "none yet"),
        ("log entries", f"{found.entries:,}"),
        ("signed last", moment(found.signed)),
        *([] if of is None else [("campaign", f"{of.number}: {of.state}")]),
        *([] if of is None else [("rounds finished", f"{of.round:,} of {of.rounds:,}")]),
        *window_rows(of)[:1],
        *key_rows(found),
    ])  # fmt: skip
    typer.echo(f"key         {found.fingerprint}")
    if found.recommender is not None:
        typer.echo(f"recommender {found.recommender}")


def token(store: StoreName) -> None:
    """Print a new login token for the operator's page.

    The previous token is void at once, and whoever is logged in is logged out. The page is at /operator on the
    operator's port (serve --operator-port)."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store) as helper:
        show_token(helper.new_operator_token())


def certificate(store: StoreName, *, hosts: Hosts = None, folder: CertificateFolder = None) -> None:
    """Replace the helper's TLS certificate and its key.

    The same authority signs the new one, so the recommender notices nothing. Host names stay unless others are
    given."""
    from prirec.recommender.recommender import Helper

    with Helper.open(store, certificates=folder) as helper:
        helper.rotate_keys(sessions=False, hosts=hosts or ())
    typer.echo(f"new certificate and key: {helper.certificates.certificate}")
    typer.echo("restart the service: it reads both when it starts")


def backup(
    store: StoreName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the copy; it holds the secret keys.")],
) -> None:
    """Copy a store that is a file, while the service goes on.

    The copy has no shares and no keys of campaigns: a helper that is restored from it opens nothing that began before.
    """
    from prirec.recommender.recommender import Helper, copyable

    copyable(store)
    with Helper.open(store) as helper:
        entries = helper.back_up(file)
    typer.echo(f"copied to {file}; its log has {counted(entries, 'entry', 'entries')}")


def restore(store: StoreName, *, file: CopyOfStore = None) -> None:
    """Put a store back from a copy.

    Without --from: makes a store safe that was put back by other means. A restored operator opens no sum that began
    before: end the campaign, and begin another one."""
    from prirec.recommender.recommender import Helper

    entries = Helper.restore(store, file=file)
    typer.echo(f"restored; its log has {counted(entries, 'entry', 'entries')}, and nothing that began before is opened")


def build() -> typer.Typer:
    """The group of commands, each with examples of its arguments."""
    made = subgroup(
        "Run the second operator of a deployment.",
        epilog=examples(
            "prirec helper init helper.db --host helper.example",
            "prirec helper serve helper.db --host 0.0.0.0",
            "prirec helper status helper.db",
        ),
    )
    add_commands(made, "prirec helper", {
        "init": (init, "helper.db --host helper.example"),
        "pair": (pair, "helper.db --deployment $DEPLOYMENT --recommender-key $KEY"),
        "serve": (serve, "helper.db --host 0.0.0.0"),
        "status": (status, "helper.db", "helper.db --json"),
        "rotate-key": (rotate_key, "helper.db"),
        "approve-key": (approve_key, "helper.db $KEY"),
        "token": (token, "helper.db"),
        "certificate": (certificate, "helper.db"),
        "backup": (backup, "helper.db helper-2024-05-04.db"),
        "restore": (restore, "helper.db --from helper-2024-05-04.db"),
    })  # fmt: skip
    made.callback()(disable_core_dumps)
    return made
