"""What the commands of a recommender's operator have in common: the store, and where its certificates are."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from prirec.cli.options import Assignments, DataFolder, Json, SettingsFile, examples
from prirec.cli.output import subgroup
from prirec.cli.privacy import BudgetPreset

if TYPE_CHECKING:
    from prirec.recommender.store import Store
    from prirec.recommender.tls import Certificates

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
    from prirec.recommender.database import sqlite_path
    from prirec.recommender.store import Store

    file = sqlite_path(store)
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
    from prirec.recommender.tls import Certificates

    return Certificates.beside(store) if folder is None else Certificates(folder)


# prirec recommender init: a new deployment.


RECOMMENDER_INIT_EPILOG = examples(
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

    from prirec.recommender.operator import check_title, fingerprint, found_deployment, refuse_second_deployment
    from prirec.recommender.store import Store
    from prirec.recommender.tls import check_hosts

    made, names = certificates(folder, store), hosts or [gethostname()]
    check_title(title)
    check_hosts(names)
    with Store.open(store) as opened:
        refuse_second_deployment(opened)
        made.make(title=title, hosts=names, now=datetime.now(UTC))
        founding = found_deployment(opened, title=title)
    typer.echo(f"founded; keys and certificates are in {made.folder} and in the store: both are secret but for")
    typer.echo(f"  authority    {made.authority}")
    typer.echo(f"  fingerprint  {fingerprint(founding.identity)}")
    typer.echo("which devices are handed, the fingerprint by a way that people trust")
    typer.echo(f"next: {_next('publish', store, 'DATA')}; then {_next('serve', store)}")


def _next(*words: str) -> str:
    from prirec.cli.output import program

    return shlex.join((*program(), "recommender", *words))


# prirec recommender publish: the places that devices learn about.


RECOMMENDER_PUBLISH_EPILOG = examples(
    "prirec recommender publish town.db town", "prirec recommender publish town.db town --json"
)


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
    from prirec.cli.options import choose
    from prirec.cli.output import busy, notes, show_json
    from prirec.recommender.operator import publish_catalogue as put
    from prirec.recommender.release import from_folder
    from prirec.wire.campaign import deployable

    settings = deployable(choose(preset=None, file=file, assignments=assignments))
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


# prirec recommender rounds: begin a campaign, see what its sums came to, and end one that does not go on.


if TYPE_CHECKING:
    from prirec.recommender.campaign import PhaseOutcome
    from prirec.recommender.operator import CampaignStatus
    from prirec.wire.documents import Charter

RECOMMENDER_ROUNDS_EPILOG = examples(
    "prirec recommender rounds begin town.db", "prirec recommender rounds list town.db"
)
EPILOG_BEGIN = examples(
    "prirec recommender rounds begin town.db",
    "prirec recommender rounds begin town.db --settings campaign.toml --set iterations=10",
)
EPILOG_LIST = examples("prirec recommender rounds list town.db", "prirec recommender rounds list town.db --json")
EPILOG_END = examples("prirec recommender rounds end town.db")
SUMS = {"visits": "visits", "mixing": "linear models", "learning": "gradients of V"}


def begin(
    store: StoreName,
    *,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    iterations: Annotated[int | None, typer.Option(metavar="T", help="Rounds.")] = None,
    dimension: Annotated[int | None, typer.Option(metavar="K", help="Dimension of V.")] = None,
    json: Json = False,
) -> None:
    """Begin a campaign with everyone who has enrolled by now.

    Settings, people and places are fixed for it and go into the signed log; the service conducts it by itself. Each
    device works out what it would pay, and takes part as far as its own budget allows."""
    from prirec.cli.options import choose
    from prirec.recommender.operator import begin_campaign as start

    flags = {"iterations": iterations, "model.dimension": dimension}
    settings = choose(preset=preset, file=file, assignments=assignments, flags=flags)
    with opened(store) as held:
        charter = start(held, settings)
    _show_begun(charter, json=json)


def _show_begun(charter: "Charter", *, json: bool) -> None:
    """With the price for a person who takes part in everything."""
    from prirec.cli.output import show_json
    from prirec.config import loads
    from prirec.privacy.plan import plan_for
    from prirec.simulate.privacy_plan import promise, terms

    settings = loads(charter.settings)
    plan = plan_for(settings, people=charter.many, pois=charter.places)
    price = terms(plan, settings.privacy.period_days)
    if json:
        show_json({
            "campaign": charter.campaign, "people": charter.many, "places": charter.places,
            "rounds": settings.iterations, "floor": settings.floor, "delta": plan.delta,
            "terms": [asdict(term) for term in price],
        })  # fmt: skip
        return
    typer.echo(f"campaign {charter.campaign} has begun: {charter.many:,} people, {charter.places:,} places")
    typer.echo(f"a sum of visits, then {settings.iterations:,} rounds; no sum of fewer than {settings.floor} is opened")
    typer.echo(f"who takes part in everything pays {promise(price, plan.delta)}")


def end(store: StoreName) -> None:
    """End a campaign that does not go on.

    Sums that are open are given up and nothing is published, so the model before stays in force. Devices that have
    masked a vector have paid for it; they come to the next campaign by themselves."""
    from prirec.recommender.operator import end_campaign as stop

    with opened(store) as held:
        ended = stop(held)
    typer.echo(f"the campaign was ended in its phase {ended.phase}; nothing is published of it")


def listing(store: StoreName, *, json: Json = False) -> None:
    """List the sums of the last campaign that are over.

    Opened: of a mixing, how many cohorts. Survivors: whose contributions are in it; rostered: who had come to it."""
    from prirec.cli.output import show_json
    from prirec.recommender.operator import campaign_status

    with opened(store) as held:
        found = campaign_status(held)
    if json:
        show_json({
            "campaign": None if found is None else found.number,
            "phase": None if found is None else found.phase,
            "sums": [] if found is None else [_as_dict(past) for past in found.past],
        })  # fmt: skip
        return
    if found is None:
        typer.echo("no campaign has begun yet")
    else:
        _show(found)


def _show(found: "CampaignStatus") -> None:
    from prirec.cli.output import show_table

    if not found.past:
        typer.echo(f"campaign {found.number}: no sum is over yet; the phase is {found.phase}")
        return
    lines = [
        (
            SUMS.get(past.kind, past.kind), str(past.iteration), f"{past.opened} of {past.gathered}",
            f"{past.survivors:,}", f"{past.rostered:,}",
        )
        for past in found.past
    ]  # fmt: skip
    columns = ("sum of", ">round", ">opened", ">survivors", ">rostered")
    show_table(columns, lines, title=f"campaign {found.number}, {found.phase}")


def _as_dict(past: "PhaseOutcome") -> dict[str, object]:
    names = ("opened", "gathered", "survivors", "rostered")
    return {"sum": past.kind, "round": past.iteration, **{name: getattr(past, name) for name in names}}


# prirec recommender serve: the service that devices use, and beside it the conductor of rounds.


RECOMMENDER_SERVE_EPILOG = examples(
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

    from prirec.cli.output import needing

    with needing("recommender"):
        from prirec.recommender import observability
        from prirec.recommender.server import Worker
        from prirec.recommender.server import serve as run
    from prirec.recommender.conductor import Pace, conduct

    opened(store).close()
    _refuse_odd(code, certificate=certificate, key=key)
    files = certificates(None, store)
    worker = Worker(
        store,
        certificate=certificate or files.certificate,
        key=key or files.key,
        conduct=partial(conduct, pace=Pace(coming, step), tell=observability.log_event),
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


# prirec recommender status: how a deployment stands.


if TYPE_CHECKING:
    from datetime import datetime

    from prirec.recommender.operator import CampaignStatus, DeploymentStatus
    from prirec.recommender.tls import Certificates

RECOMMENDER_STATUS_EPILOG = examples("prirec recommender status town.db", "prirec recommender status town.db --json")
SOON = 60  # days before its end at which a certificate is worth a word


def status(store: StoreName, *, folder: CertificateFolder = None, json: Json = False) -> None:
    """Say how a deployment stands: people, campaign, log, mail."""
    from datetime import UTC, datetime

    from prirec.cli.output import note, show_json, show_table
    from prirec.recommender.operator import deployment_status

    with opened(store) as held:
        found = deployment_status(held)
    end = _end(certificates(folder, store))
    if json:
        show_json(_as_dict_recommender_status(found, end=end))
        return
    show_table((found.title, ""), _rows(found, end=end))
    typer.echo(f"fingerprint {found.fingerprint}")
    if end is not None and (left := (end - datetime.now(UTC)).days) < SOON:
        when = "has ended" if left < 0 else f"ends in {left} days"
        note(f"the server's certificate {when}: prirec recommender keys rotate")


def _end(files: "Certificates") -> "datetime | None":
    """Of the certificate in the folder; a deployment may have others."""
    from prirec.recommender.tls import expires_at

    return expires_at(files.certificate) if files.certificate.exists() else None


def _rows(found: "DeploymentStatus", *, end: "datetime | None") -> list[tuple[str, str]]:
    counts = found.counts
    return [
        ("certificate until", "not in the folder" if end is None else f"{end:%Y-%m-%d}"),
        ("people enrolled", f"{counts.people:,}"),
        ("places in the catalogue", "none published yet" if found.places is None else f"{found.places:,}"),
        *_campaign(found.campaign),
        ("entries in the log", f"{counts.entries:,}"),
        ("sums open now", f"{counts.open_rounds:,}"),
        ("messages to be heard", f"{counts.messages:,}"),
        ("letters waiting", f"{counts.letters:,}"),
    ]


def _campaign(found: "CampaignStatus | None") -> list[tuple[str, str]]:
    if found is None:
        return [("campaign", "none yet")]
    over = {"over": "over: its model is published", "failed": f"failed: {_failure(found)}"}
    return [
        ("campaign", f"{found.number}, with {found.people:,} people"),
        ("phase", over.get(found.phase, found.phase) + (f", attempt {found.attempt + 1}" if found.attempt else "")),
        ("rounds behind it", f"{found.round:,} of {found.rounds:,}"),
    ]


def _failure(found: "CampaignStatus") -> str:
    """What ended it without a model: its last sum, or its operator, who leaves an attempt or a round unfinished."""
    if found.round == found.rounds:
        return "V was never moved"
    last = found.past[-1] if found.past else None
    attempts = sum(past.kind == "visits" for past in found.past)
    if last is not None and last.kind == "visits" and not last.opened and attempts > found.attempt:
        return "its sum of visits was not opened"
    return "its operator ended it"


def _as_dict_recommender_status(found: "DeploymentStatus", *, end: "datetime | None") -> dict[str, Any]:
    told = asdict(found)
    counts, campaign = told.pop("counts"), told["campaign"]
    if campaign is not None:
        campaign.pop("past")
    until = None if end is None else end.isoformat()
    return {**told, "certificate_until": until, **counts}


# prirec recommender backup and keys rotate: what an operator does to keep a deployment going.


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
    from prirec.recommender.database import back_up, sqlite_path

    source = sqlite_path(store)
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
    from prirec.recommender.operator import rotate_sessions

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


# prirec recommender: the commands of whoever runs a deployment.


RECOMMENDER_EPILOG = examples(
    "prirec recommender init town.db --title Springfield --host recommender.example",
    "prirec recommender serve town.db --host 0.0.0.0",
    "prirec recommender status town.db",
)


def build() -> typer.Typer:
    """The commands and their names."""
    made = subgroup("Run a deployment: found it, serve devices, begin campaigns.", epilog=RECOMMENDER_EPILOG)
    made.command("init", epilog=RECOMMENDER_INIT_EPILOG)(init)
    made.command("publish", epilog=RECOMMENDER_PUBLISH_EPILOG)(publish)
    made.command("serve", epilog=RECOMMENDER_SERVE_EPILOG)(serve)
    rounds = subgroup("Campaigns and their sums.", epilog=RECOMMENDER_ROUNDS_EPILOG)
    rounds.command("begin", epilog=EPILOG_BEGIN)(begin)
    rounds.command("list", epilog=EPILOG_LIST)(listing)
    rounds.command("end", epilog=EPILOG_END)(end)
    made.add_typer(rounds, name="rounds")
    made.command("status", epilog=RECOMMENDER_STATUS_EPILOG)(status)
    made.command("backup", epilog=EPILOG_BACKUP)(backup)
    keys = subgroup("Keys and certificates.", epilog=EPILOG_KEYS)
    keys.command("rotate", epilog=EPILOG_ROTATE)(rotate)
    made.add_typer(keys, name="keys")
    return made
