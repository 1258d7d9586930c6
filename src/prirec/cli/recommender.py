"""prirec recommender: the commands of an operator. Each parses flags, calls `prirec.Recommender` and prints."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from prirec.cli.commands import add_commands, subgroup
from prirec.cli.options import AppOrigins, Assignments, CodeFile, Json, SettingsFile, enrolment_code, examples
from prirec.cli.output import busy, note, notes, program, show_json, show_table
from prirec.cli.privacy import BudgetPreset
from prirec.util.shown import counted
from prirec.util.system import disable_core_dumps

if TYPE_CHECKING:
    from datetime import datetime

    from prirec.recommender.operator import CampaignStatus, DeploymentStatus, DeviceRecord, HelperStatus

StoreName: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="STORE", help="The deployment's file, or a database: postgresql://user@host/name."),
]
Hosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--host", metavar="NAME", help="Name or address by which the server is reached; repeatable."),
]
CertificateFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--certificates", metavar="FOLDER", show_default="STORE.tls", help="Folder of the certificates and their keys."
    ),
]
NextFingerprint: TypeAlias = Annotated[
    str, typer.Argument(metavar="KEY", help="Whole fingerprint of the next key, from the other operator.")
]
OLD_CODE = "PRIREC_ENROLMENT_CODE"
LAST_PORT = 65_535
SOON = 60  # days before its end at which `status` warns of a certificate
SUMS = {"visits": "visits", "moments": "moments", "learning": "gradients", "quality": "quality figures"}


# Creating a deployment, and its catalogue


def init(
    store: StoreName,
    *,
    title: Annotated[str, typer.Option(metavar="TEXT", help="Title that people see when their devices join.")],
    hosts: Hosts = None,
    folder: CertificateFolder = None,
    helper: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the helper, for sums over two operators.")
    ] = None,
    helper_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The helper's whole fingerprint, as it prints it.")
    ] = None,
    helper_authority: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CA certificate (PEM) that signed the helper's TLS certificate.")
    ] = None,
) -> None:
    """Create a deployment: keys, certificates and an empty store.

    Certificates are signed by a CA of the deployment's own, whose certificate devices need to join. Without --host they
    are for this machine's name; they are always for localhost too.

    With --helper and --helper-key no sum is opened without that second operator (prirec helper), for good: devices pin
    both."""
    from prirec.errors import UsageError
    from prirec.recommender.operator import HelperAddress
    from prirec.recommender.recommender import Recommender
    from prirec.util.trust import read_authority

    if (helper is None) != (helper_key is None):
        raise UsageError("--helper and --helper-key belong together: give both, or neither")
    second = None
    if helper is not None:
        authority = b"" if helper_authority is None else read_authority(helper_authority)
        second = HelperAddress.of(helper, helper_key or "", authority)
    with Recommender.create(store, title=title, hosts=hosts or (), certificates=folder, helper=second) as made:
        files, fingerprint, deployment = made.certificates, made.fingerprint, made.status().deployment
        token = made.new_operator_token()
    typer.echo(f"created; keys are in the store and in {files.folder}: both are secret. Devices need only")
    typer.echo(f"  authority    {files.authority}")
    typer.echo(f"  fingerprint  {fingerprint}")
    if second is not None:
        typer.echo(f"  helper       {second.key.hex()}")
    if second is None:
        typer.echo("publish the fingerprint where people trust it")
    else:
        typer.echo("publish both keys where people trust them")
        words = ("helper", "pair", "HELPER.db", "--deployment", deployment, "--recommender-key", fingerprint)
        typer.echo(f"on the helper: {shlex.join((*program(), *words))}")
    show_token(token)
    typer.echo(f"next: {_next('publish', store, 'DATA')}; then {_next('serve', store)}")


def show_token(token: str) -> None:
    """The login token of the operator's page, which the store does not have."""
    typer.echo(f"token for the operator's page, which is not shown again: {token}")


def _next(*words: str) -> str:
    return shlex.join((*program(), "recommender", *words))


def publish(
    store: StoreName,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="Data folder, of which only pois and schema.toml are read.")
    ],
    *,
    start: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Saved run (prirec train) to recommend with before the first campaign. It is published as it is.",
        ),
    ] = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    json: Json = False,
) -> None:
    """Publish a catalogue: the pois of a data folder, by region.

    The private columns that schema.toml declares for users and visits are those that devices use; they never leave a
    device. Campaigns that begin from now on use this catalogue; one that is under way keeps its own.

    Devices recommend at once: with --start by a model that was trained on public data, or on those of people who
    agreed; else each by its own records alone. The first campaign learns anew, and its model replaces both."""
    from prirec.cli.options import choose
    from prirec.recommender.recommender import Recommender

    settings = choose(preset=None, file=file, assignments=assignments)
    model = None
    if start is not None:
        with busy("reading the run"):
            from prirec import load

            model = load(start).starting_model
    with Recommender.open(store) as recommender:
        with busy("reading the places"):
            source = recommender.read_places(data, settings)
        catalogue = recommender.publish(source, start=model)
        before = None if model is not None else recommender.status().start
    features = {
        "person": [block.column for block in source.encoding.person],
        "visit": [block.column for block in source.encoding.context],
    }
    averages = [block.column for block in source.encoding.averages]
    places, regions = len(catalogue.known), len(catalogue.manifest.regions)
    if json:
        manifest, promise = catalogue.name.hex(), None if model is None else model.promise
        show_json({
            "places": places, "regions": regions, "manifest": manifest, "features": features, "averages": averages,
            "start": promise, "notes": source.notes,
        })  # fmt: skip
        return
    notes(source.notes)
    typer.echo(f"published {counted(places, 'place')} in {counted(regions, 'region')}")
    for of, columns in features.items():
        typer.echo(f"features of a {of}, which never leave a device: {', '.join(columns) or 'none'}")
    if averages:
        typer.echo(f"averages over visits, from sums with noise: {', '.join(averages)}")
    if model is not None:
        typer.echo(f"starting model published ({model.promise}); devices recommend with it until a campaign is over")
        note(
            "the starting model is public as it is, with the popularity that it was trained with. The noise of a "
            "simulation follows from its seed, and hides nobody: train on public data, or on those of people who agreed"
        )
    elif before is not None:
        note(f"devices go on with the starting model of before ({before}), and its places; --start replaces it")


# Campaigns


def begin(
    store: StoreName,
    *,
    preset: BudgetPreset = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    iterations: Annotated[int | None, typer.Option(metavar="T", help="Number of rounds.")] = None,
    window: Annotated[
        str,
        typer.Option(metavar="TIME", help="With a helper: how long devices may report for a sum, such as 6h or 2d."),
    ] = "24h",
    most: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default="twice as many as are enrolled",
            help="With a helper: people that a sum is sized for, those who enrol later included.",
        ),
    ] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Begin even if noise would take much from what so many people can teach.")
    ] = False,
    json: Json = False,
) -> None:
    """Begin a campaign with everyone who has enrolled by now.

    First the command forecasts, from public numbers, how much of what people teach the noise would leave. Where that
    is little, it begins nothing without --anyway, since a campaign spends everyone's budget.

    Settings, people and places are fixed for the whole campaign and go into the signed log; the service conducts it by
    itself. Each device computes what it would pay, and takes part as far as its own privacy budget allows."""
    from prirec.cli.options import choose
    from prirec.recommender.recommender import Recommender

    flags, seconds = {"iterations": iterations}, _seconds(window)
    settings = choose(preset=preset, file=file, assignments=assignments, flags=flags)
    with Recommender.open(store) as recommender:
        forecast = recommender.forecast(settings)
        charter = recommender.begin(settings, anyway=anyway, window=seconds, most=most)
    if json:
        show_json({
            "campaign": charter.campaign, "people": charter.many or forecast.counts.people, "places": charter.places,
            "rounds": settings.iterations, "floor": settings.floor, "delta": settings.privacy.delta,
            "terms": [asdict(term) for term in forecast.terms],
            "noise": None if forecast.noise is None else asdict(forecast.noise), "usable": forecast.usable,
        })  # fmt: skip
        return
    typer.echo(forecast.verdict)
    people = counted(charter.many or forecast.counts.people, "person")
    typer.echo(f"campaign {charter.campaign} has begun: {people}, {counted(charter.places, 'place')}")
    if charter.helper:
        typer.echo(f"each sum has a window of {window}; sums are sized for {counted(charter.most, 'person')}")
    rounds = counted(settings.iterations, "round")
    typer.echo(
        f"a sum of visits, one of moments, then {rounds}; no sum of fewer than {settings.floor} people is opened"
    )
    typer.echo(f"who takes part in everything pays {forecast.price}")


def _seconds(text: str) -> int:
    """UsageError for what is no length of time."""
    from re import fullmatch

    from prirec.errors import UsageError

    found = fullmatch(r"([0-9]{1,6})([smhd])", text)
    if found is None:
        raise UsageError("--window takes a length of time, such as 90m, 6h or 2d")
    return int(found[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86_400}[found[2]]


def end(store: StoreName) -> None:
    """End a campaign early, for instance one that is stuck.

    Open sums are abandoned and nothing is published: the previous model, if any, stays in use. Devices that have
    masked a vector have spent budget on it. Devices take part in the next campaign by themselves."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        phase = recommender.end()
    typer.echo(f"campaign ended in its phase {phase}; nothing is published of it")


def listing(store: StoreName, *, json: Json = False) -> None:
    """List the finished sums of the last campaign.

    Moments are means and spreads of private columns. Rostered: devices that answered the invitation. Survivors: those
    of them whose contribution is in the sum."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        found = recommender.campaign()
    if json:
        names = ("opened", "survivors", "rostered")
        show_json({
            "campaign": None if found is None else found.number,
            "phase": None if found is None else found.phase,
            "sums": [
                {"sum": past.kind, "round": past.iteration, **{name: getattr(past, name) for name in names}}
                for past in (() if found is None else found.past)
            ],
        })  # fmt: skip
    elif found is None:
        typer.echo("no campaign has begun yet")
    else:
        _show_sums(found)


def _show_sums(found: "CampaignStatus") -> None:
    typer.echo(found.verdict)
    if not found.past:
        typer.echo("no sum is finished yet")
        return
    rows = [
        (
            SUMS.get(past.kind, past.kind), str(past.iteration), "yes" if past.opened else "no",
            f"{past.survivors:,}", f"{past.rostered:,}",
        )
        for past in found.past
    ]  # fmt: skip
    show_table(("sum of", ">round", ">opened", ">survivors", ">rostered"), rows)


# Devices that break the protocol


DeviceName: TypeAlias = Annotated[
    str, typer.Argument(metavar="NAME", help="The device's public key, 64 hexadecimal digits, as exclusions lists it.")
]


def exclude(
    store: StoreName,
    name: DeviceName,
    *,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in one line; it stays on record in the store.")],
) -> None:
    """Exclude a device from rosters, sessions and enrolment.

    It takes effect at once; in sums under way the device counts as lost, unless two operators have accepted its report
    by now. Only this key is stopped: where anybody may enrol, its owner can come again with another, so use an
    enrolment code (serve --code-file) as well."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        recommender.exclude(name, reason=reason)
    typer.echo(f"excluded; {_next('readmit', store, name)} undoes it")


def readmit(store: StoreName, name: DeviceName) -> None:
    """End the exclusion of a device. It takes part again."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        recommender.readmit(name)
    typer.echo("readmitted; that it was excluded stays on record")


def exclusions(store: StoreName, *, json: Json = False) -> None:
    """List devices that broke the protocol, and excluded devices.

    A device is listed only if the protocol proves that it lied, such as by a share other than the one its owner
    committed to. A false vector proves nothing: it is masked."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        found = recommender.device_records()
    if json:
        show_json({"devices": [_record_dict(one) for one in found]})
        return
    if not found:
        typer.echo("no device has broken the protocol, and none is excluded")
    for one in found:
        typer.echo(one.name)
        if one.times:
            times = counted(one.times, "time")
            typer.echo(f"  broke the protocol {times}, the last time in campaign {one.campaign}: {one.problem}")
        for past in one.exclusions:
            until = "now" if past.until is None else _date(past.until)
            typer.echo(f"  excluded from {_date(past.since)} until {until}: {past.reason}")


def _record_dict(of: "DeviceRecord") -> dict[str, Any]:
    return {
        "device": of.name, "times": of.times, "problem": of.problem or None, "campaign": of.campaign,
        "excluded": of.excluded is not None,
        "exclusions": [
            {"reason": one.reason, "since": _date(one.since), "until": None if one.until is None else _date(one.until)}
            for one in of.exclusions
        ],
    }  # fmt: skip


def _date(day: int) -> str:
    from datetime import date, timedelta

    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


# Serving, and its upkeep

ListenAddress: TypeAlias = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 is every one.")
]
ListenPort: TypeAlias = Annotated[
    int, typer.Option(min=0, max=LAST_PORT, metavar="N", help="Port to listen on; 0 takes a free one.")
]
OperatorAddress: TypeAlias = Annotated[
    str, typer.Option(metavar="ADDRESS", help="Address to serve /operator and /metrics on.")
]
CertificateFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", show_default="STORE.tls/server.pem", help="PEM, with its chain.")
]
KeyFile: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", show_default="STORE.tls/server.key", help="PEM, without a password.")
]


def serve(
    store: StoreName,
    *,
    host: ListenAddress = "127.0.0.1",
    port: ListenPort = 8443,
    operator_host: OperatorAddress = "127.0.0.1",
    operator_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LAST_PORT,
            metavar="N",
            show_default="the one after --port",
            help="Port of /operator and /metrics; 0 takes a free one.",
        ),
    ] = None,
    certificate: CertificateFile = None,
    key: KeyFile = None,
    workers: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Processes on this machine.")] = 1,
    coming: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long a sum waits for invited devices to answer.")
    ] = 300.0,
    step: Annotated[
        float, typer.Option(min=0.0, metavar="SECONDS", help="How long each step of a sum waits for its devices.")
    ] = 30.0,
    code_file: CodeFile = None,
    app_origin: AppOrigins = None,
    app_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LAST_PORT,
            metavar="N",
            help="Also serve My phone at this port of this machine, for rehearsal; 0 takes a free one.",
        ),
    ] = None,
) -> None:
    """Serve devices, and conduct rounds, until stopped.

    Ctrl-C or SIGTERM stop it after requests under way are answered. Logs go to the standard error stream, one JSON
    object a line, without anything about a person; the first line says who may enrol: with --code-file only devices
    that know the code, else anybody. Any number of machines may serve one PostgreSQL database: one of them conducts at
    a time."""
    from os import environ

    from prirec.errors import UsageError
    from prirec.recommender.conductor import Pace
    from prirec.recommender.recommender import Recommender

    if OLD_CODE in environ:  # ignored, it would let everybody in
        raise UsageError(f"{OLD_CODE} is not read any more: others can see it; write the code to a file (--code-file)")
    if port == LAST_PORT and operator_port is None:
        raise UsageError(
            f"port {port} has no port after it: name another one, or one for the operator (--operator-port)"
        )
    code = enrolment_code(code_file)
    with Recommender.open(store) as recommender:
        pass  # each worker opens the store for itself: a connection does not survive a fork
    following = port + 1 if port else 0
    recommender.serve(
        host=host, port=port, operator=(operator_host, following if operator_port is None else operator_port),
        workers=workers, pace=Pace(coming, step), code=code, certificate=certificate, key=key,
        app_origins=app_origin or (), app_port=app_port,
    )  # fmt: skip


def app(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder, for any host of static files.")],
    *,
    url: Annotated[str, typer.Option(metavar="URL", help="The recommender's HTTPS address, as browsers reach it.")],
    recommender_key: Annotated[
        str, typer.Option(metavar="KEY", help="The recommender's whole fingerprint, from its operator.")
    ],
    helper_key: Annotated[str, typer.Option(metavar="KEY", help="The helper's whole fingerprint, from its operator.")],
) -> None:
    """Write My phone, a device as a web page, into a folder.

    Prints the headers that the host must send with every response. The recommender must admit the page's origin (serve
    --app-origin). Whoever hosts the page can change it, so it should be neither of the two operators."""
    from prirec.pages.my_phone import RecommenderAddress, copy
    from prirec.recommender.operator import public_key

    keys = (public_key(one).hex() for one in (recommender_key, helper_key))
    for header in copy(folder, RecommenderAddress(url, *keys)):
        typer.echo(header)
    note(f"written to {folder}; serve it over HTTPS, with these headers")


def status(store: StoreName, *, folder: CertificateFolder = None, json: Json = False) -> None:
    """Show people, campaign, log, keys and queued messages."""
    from datetime import UTC, datetime

    from prirec.recommender.recommender import Recommender
    from prirec.util.shown import printable

    with Recommender.open(store, certificates=folder) as recommender:
        found, until = recommender.status(), recommender.certificate_until
    if json:
        show_json(_status_dict(found, until=until))
        return
    typer.echo(printable(f"{found.title}: {found.verdict}"))
    show_table(("", ""), _status_rows(found, until=until))
    typer.echo(f"fingerprint {found.fingerprint}")
    if found.helper is not None:
        typer.echo(f"helper      {found.helper.fingerprint}")
    if until is not None and (left := (until - datetime.now(UTC)).days) < SOON:
        when = "has ended" if left < 0 else f"ends in {counted(left, 'day')}"
        note(f"the server's certificate {when}: prirec recommender keys rotate")
    if found.counts.blamed:
        note(f"{counted(found.counts.blamed, 'device')} broke the protocol: {_next('exclusions', store)}")


def window_rows(of: "CampaignStatus | None") -> list[tuple[str, str]]:
    """The window that is open, in a table."""
    if of is None or of.window is None:
        return []
    extended = f", extended {counted(of.window.extended, 'time')}" if of.window.extended else ""
    return [
        ("window closes", f"{moment(of.window.closes)}{extended}"),
        ("reports", f"{of.window.reports:,} of {of.window.people:,} people"),
    ]


def moment(seconds: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC" if seconds else "never"


def _promise_rows(found: "DeploymentStatus") -> list[tuple[str, str]]:
    of = found.promise
    if of is None:
        return []
    all_of_them = f"in {counted(of.campaigns, 'campaign')}, if in every sum: ε = {of.lifetime:.4g}"
    return [("asked of each person", of.words), ("in all, ever", all_of_them)]


def key_rows(found: "DeploymentStatus | HelperStatus") -> list[tuple[str, str]]:
    """Operators' keys that were rotated, and the own next one, in a table."""
    rows = [(f"{one.operator}'s key", f"rotated, made {moment(one.time)}; before: {one.old}") for one in found.rotated]
    return rows + ([] if found.next_key is None else [("next key, not in force", found.next_key)])


def _helper_rows(found: "DeploymentStatus") -> list[tuple[str, str]]:
    if found.helper is None:
        return []
    signed = f"{counted(found.helper.signed, 'entry', 'entries')}, {moment(found.helper.time)}"
    return [("helper", found.helper.url), ("signed by the helper", signed)]


def _status_rows(found: "DeploymentStatus", *, until: "datetime | None") -> list[tuple[str, str]]:
    counts, of = found.counts, found.campaign
    campaign = (
        [("campaign", "none yet")]
        if of is None
        else [
            ("campaign", f"{of.number}, with {counted(of.people, 'person')}"),
            ("state", of.state),
            ("rounds finished", f"{of.round:,} of {of.rounds:,}"),
        ]
    )
    return [
        ("certificate until", "not in the folder" if until is None else f"{until:%Y-%m-%d}"),
        ("people enrolled", f"{counts.people:,}"),
        ("devices excluded", f"{counts.excluded:,}"),
        ("places in the catalogue", "none published yet" if found.places is None else f"{found.places:,}"),
        *([] if found.start is None else [("starting model", found.start)]),
        *campaign,
        *_promise_rows(found),
        *window_rows(of),
        *([] if found.quality is None else found.quality.rows),
        *(one.row for one in found.averages),
        ("log entries", f"{counts.entries:,}"),
        *_helper_rows(found),
        *key_rows(found),
        ("open sums", f"{counts.open_rounds:,}"),
        ("messages not yet processed", f"{counts.messages:,}"),
        ("messages queued for devices", f"{counts.queued:,}"),
    ]


def _status_dict(found: "DeploymentStatus", *, until: "datetime | None") -> dict[str, Any]:
    status = asdict(found)
    counts, campaign = status.pop("counts"), status["campaign"]
    if campaign is not None:
        campaign.pop("past")
    names = {
        "entries": "log_entries",
        "open_rounds": "open_sums",
        "messages": "unprocessed_messages",
        "queued": "queued_messages",
    }
    return {
        **status,
        "certificate_until": None if until is None else until.isoformat(),
        **{names.get(name, name): value for name, value in counts.items()},
    }


def token(store: StoreName) -> None:
    """Print a new login token for the operator's page.

    The previous token is void at once, and whoever is logged in is logged out. The page is at /operator on the
    operator's port (serve --operator-port)."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        show_token(recommender.new_operator_token())


def backup(
    store: StoreName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the copy; it holds the secret keys.")],
) -> None:
    """Copy a store that is a file, while the service goes on.

    Messages of open sums are left out of the copy."""
    from prirec.recommender.recommender import Recommender, copyable

    copyable(store)  # before a database is connected to
    with Recommender.open(store) as recommender:
        entries = recommender.back_up(file)
    typer.echo(f"copied to {file}; its log has {counted(entries, 'entry', 'entries')}")
    typer.echo("restore it only if the log has not grown since: devices refuse a log shorter than the one they know")


CopyOfStore: TypeAlias = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="Copy that STORE, which is new, is made from.")
]


def restore(store: StoreName, *, file: CopyOfStore = None) -> None:
    """Put a store back from a copy.

    Without --from: makes a store safe that was put back by other means. With two operators a restored store opens no
    sum that began before: end the campaign, and begin another one."""
    from prirec.recommender.recommender import Recommender

    entries = Recommender.restore(store, file=file)
    typer.echo(
        f"restored; its log has {counted(entries, 'entry', 'entries')}: devices refuse one shorter than they know"
    )


def rotate_key(
    store: StoreName,
    *,
    finish: Annotated[
        str | None, typer.Option(metavar="KEY", help="Whole fingerprint of the next key, to put it in force.")
    ] = None,
) -> None:
    """Rotate the key that signs the log, between two campaigns.

    Without --finish: makes the next key and shows its fingerprint. With two operators the helper's operator compares
    and approves it (prirec helper approve-key). With --finish: puts it in force, by an entry of the log that the old
    key, the new one and (if there is one) the helper sign. Devices follow by themselves. Each step may be run again."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        helped = recommender.store.founding().peer is not None
        key = recommender.rotate_key() if finish is None else finish
        done = finish is not None and recommender.finish_rotation(finish)
    if done:
        typer.echo("rotated; publish the new fingerprint where people trust it, and copy this store")
        return
    typer.echo(f"next key     {key}")
    if helped:
        typer.echo("tell it to the helper's operator, who approves it there:")
        typer.echo(f"  {shlex.join((*program(), 'helper', 'approve-key', 'HELPER.db', key))}")
    typer.echo(f"next: {_next('rotate-key', store, '--finish', key)}")


def approve_key(store: StoreName, key: NextFingerprint) -> None:
    """Put the helper's next key in force, between two campaigns.

    Take its fingerprint from the helper's operator, not from the helper."""
    from prirec.recommender.recommender import Recommender

    with Recommender.open(store) as recommender:
        recommender.approve_key(key)
    typer.echo("rotated; the helper's new key is in the log, and devices follow")


def rotate(
    store: StoreName,
    *,
    only: Annotated[
        Literal["sessions", "certificate"] | None,
        typer.Option(show_default="both", help="Only the session key, or only the server's certificate."),
    ] = None,
    hosts: Hosts = None,
    folder: CertificateFolder = None,
) -> None:
    """Replace the session key and the server's certificate.

    Devices need nothing new: they trust the CA, and open new sessions by themselves. The key that signs the log is
    another one: prirec recommender rotate-key."""
    from prirec.errors import UsageError
    from prirec.recommender.recommender import Recommender

    if hosts and only == "sessions":
        raise UsageError("--host is for the certificate; leave it out, or leave out --only")
    certificate, sessions = only != "sessions", only != "certificate"
    with Recommender.open(store, certificates=folder) as recommender:
        recommender.rotate_keys(sessions=sessions, certificate=certificate, hosts=hosts or ())
    if certificate:
        typer.echo(f"new certificate and key: {recommender.certificates.certificate}")
    if sessions:
        typer.echo("new session key")
    typer.echo("restart the service: it reads both when it starts")


def build() -> typer.Typer:
    """The group of commands, each with examples of its arguments."""
    made = subgroup(
        "Run a deployment: create it, serve devices, begin campaigns.",
        epilog=examples(
            "prirec recommender init town.db --title Springfield --host recommender.example",
            "prirec recommender serve town.db --host 0.0.0.0",
            "prirec recommender status town.db",
        ),
    )
    rounds = subgroup(
        "Campaigns and their sums.",
        epilog=examples("prirec recommender rounds begin town.db", "prirec recommender rounds list town.db"),
    )
    keys = subgroup("Keys and certificates.", epilog=examples("prirec recommender keys rotate town.db"))
    add_commands(made, "prirec recommender", {
        "init": (
            init,
            "town.db --title Springfield --host recommender.example",
            "town.db --title Springfield --helper https://helper.example:8443 --helper-key $KEY",
            "postgresql://prirec@db.example/prirec --title Springfield",
        ),
        "publish": (publish, "town.db town", "town.db town --start first-run", "town.db town --json"),
        "serve": (
            serve, "town.db --host 0.0.0.0", "postgresql://prirec@db.example/prirec --workers 4 --port 443"
        ),
        "app": (
            app, "my-phone --url https://recommender.example:8443 --recommender-key $KEY --helper-key $HELPER_KEY",
        ),
        "status": (status, "town.db", "town.db --json"),
        "token": (token, "town.db"),
        "exclusions": (exclusions, "town.db", "town.db --json"),
        "exclude": (exclude, 'town.db $NAME --reason lied'),
        "readmit": (readmit, "town.db $NAME"),
        "rotate-key": (rotate_key, "town.db", "town.db --finish $KEY"),
        "approve-key": (approve_key, "town.db $KEY"),
        "backup": (backup, "town.db town-2024-05-04.db"),
        "restore": (restore, "town.db --from town-2024-05-04.db", "postgresql://prirec@db.example/prirec"),
    })  # fmt: skip
    add_commands(rounds, "prirec recommender rounds", {
        "begin": (begin, "town.db", "town.db --window 6h", "town.db --settings campaign.toml --set iterations=10"),
        "list": (listing, "town.db", "town.db --json"),
        "end": (end, "town.db"),
    })  # fmt: skip
    add_commands(keys, "prirec recommender keys", {
        "rotate": (rotate, "town.db", "town.db --only certificate --host recommender.example"),
    })  # fmt: skip
    made.callback()(disable_core_dumps)
    made.add_typer(rounds, name="rounds")
    made.add_typer(keys, name="keys")
    return made
