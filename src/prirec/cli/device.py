"""What the commands of a device have in common: its file."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from prirec.cli.options import Json, ListLength, Radius, examples
from prirec.cli.output import subgroup

if TYPE_CHECKING:
    from prirec.device.device import Device

DeviceFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The device's file.")]
HomePoint: TypeAlias = Annotated[
    str | None, typer.Option("--home", metavar="LAT,LON", help="Where the person lives, in degrees; it stays here.")
]
CODE = "PRIREC_ENROLMENT_CODE"


def opened(file: Path) -> "Device":
    """StateError, and no file made, if there is none."""
    from prirec.device.device import Device
    from prirec.errors import StateError

    if not file.exists():
        raise StateError(f"there is no file {file.name}; prirec device init makes one")
    return Device.open(file)


# prirec device init: a device comes into a deployment.


if TYPE_CHECKING:
    from prirec.privacy.ledger import Budget

DEVICE_INIT_EPILOG = examples(
    "prirec device init phone.db --url https://recommender.example:8443 --authority authority.pem",
    "prirec device init phone.db --url https://recommender.example --home 35.68,139.76 --epsilon 0.5",
)
LARGEST = 100_000  # bytes of a file with certificates


def init(
    file: DeviceFile,
    *,
    url: Annotated[str, typer.Option(metavar="URL", help="The recommender's address, as its operator told.")],
    authority: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="those of the system", help="Whose certificates are believed (PEM)."),
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(metavar="HEX", help="Of the recommender's key: with another one nobody is joined.")
    ] = None,
    home: HomePoint = None,
    code: Annotated[str, typer.Option(envvar=CODE, metavar="TEXT", help="If the operator hands out one.")] = "",
    epsilon: Annotated[
        float | None, typer.Option(metavar="N", show_default="1", help="The most that may ever be told of the person.")
    ] = None,
    delta: Annotated[float | None, typer.Option(metavar="N", show_default="1e-06", help="The odds beside it.")] = None,
    period_days: Annotated[
        int | None, typer.Option(metavar="N", show_default="for life", help="The budget is for any N days in a row.")
    ] = None,
) -> None:
    """Join a deployment with a new device, in a file of its own.

    With --home the recommender is told the coarse cell around it (about 36 km²), and nothing finer; without one it is
    told none, and the device downloads all regions. The budget is the person's: beyond it nothing is sent."""
    from prirec.cli.options import point_of
    from prirec.cli.output import needing
    from prirec.device.device import Device
    from prirec.util.shown import printable

    with needing("device"):
        import prirec.device.client  # noqa: F401
    here = None if home is None else point_of(home, flag="--home")
    trusted = b"" if authority is None else _read(authority)
    with Device.open(file) as device:
        budget = _budget(device.budget, epsilon=epsilon, delta=delta, period_days=period_days)
        device.set_budget(budget)  # first: from then on nothing is told of the person beyond it
        joined = device.join(url, home=here, authority=trusted, fingerprint=fingerprint, code=code)
        enrolled = device.status().belonging
    typer.echo(f"joined: {printable(joined.title)}")
    typer.echo(f"the recommender's key, pinned from now on: {joined.recommender.hex()}")
    if fingerprint is None:
        typer.echo("compare it with the fingerprint that the operator made known")
    if enrolled is None or not enrolled.enrolled:
        typer.echo("the recommender did not answer any more; the device enrols when it runs")
    _say_budget(budget)


def _read(path: Path) -> bytes:
    from prirec.errors import UsageError

    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path.name} with an authority's certificate") from None
    if len(found) > LARGEST or not found:
        raise UsageError(f"{path.name} is not an authority's certificate (PEM)")
    return found


def _budget(
    held: "Budget", *, epsilon: float | None, delta: float | None, period_days: int | None
) -> "Budget":  # fmt: skip
    """What was said before, changed by the flags that are given."""
    from dataclasses import replace

    given = {"epsilon": epsilon, "delta": delta, "period_days": period_days}
    return replace(held, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _say_budget(budget: "Budget") -> None:
    when = "for life" if budget.period_days is None else f"in any {budget.period_days} days"
    typer.echo(f"the budget: epsilon = {budget.epsilon:g}, delta = {budget.delta:g}, {when}; what is spent stays spent")


# prirec device profile: what a person tells their own device.


if TYPE_CHECKING:
    from prirec.device.device import Device
    from prirec.features.encoding import Value

DEVICE_PROFILE_EPILOG = examples(
    "prirec device profile phone.db age=31 'likes=music|tea' --home 35.68,139.76",
    "prirec device profile phone.db --forget age",
    "prirec device profile phone.db",
)


def profile(
    file: DeviceFile,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="A number, a word, or words such as tea|music.", show_default=False),
    ] = None,
    *,
    home: HomePoint = None,
    forget: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Forget a value; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Set or show what describes the person. None of it leaves the device.

    A word that looks like a number is put in double quotes. Names are those that the deployment asks for; others are
    kept and not used."""
    from prirec.cli.options import point_of

    told = {**_parsed(values or ()), **dict.fromkeys(forget or ())}
    here = None if home is None else point_of(home, flag="--home")
    with opened(file) as device:
        if told:
            device.describe(told)
        if here is not None:
            device.person.set_home(here)
        _show(device, json=json)


def _parsed(values: Sequence[str]) -> "dict[str, Value]":
    from prirec.device.person import parse_value
    from prirec.errors import UsageError

    told = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError("write NAME=VALUE, such as age=31; --forget NAME forgets one")
        if name in told:
            raise UsageError(f"'{name}' is given twice")
        told[name] = parse_value(value)
    return told


def _show(device: "Device", *, json: bool) -> None:
    """For the person's eyes."""
    from prirec.cli.output import show_json, show_table
    from prirec.device.device import campaign_encoding

    held, home, encoding = device.person.profile(), device.person.home(), campaign_encoding(device.person)
    asked = None if encoding is None else [block.column for block in encoding.person]
    if json:
        show_json({"profile": held, "home": home, "asked": asked})
        return
    used = {name: "" if asked is None else "yes" if name in asked else "no" for name in held}
    rows = [(name, _words(value), used[name]) for name, value in held.items()]
    rows += [] if home is None else [("home", f"{home[0]:g},{home[1]:g}", "")]
    missing = [name for name in asked or () if name not in held]
    if rows:
        show_table(("name", "value", "used") if asked is not None else ("name", "value", ""), rows)
    else:
        typer.echo("nothing was told yet")
    if missing:
        typer.echo(f"the deployment also knows what to do with: {', '.join(missing)}")


def _words(value: "Value") -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else " | ".join(value)


# prirec device visit: where a person was, told to their own device.


if TYPE_CHECKING:
    from prirec.device.person import Visit

DEVICE_VISIT_EPILOG = examples(
    "prirec device visit phone.db noodle-bar",
    "prirec device visit phone.db museum --time 2024-05-04T19:30 --ignored",
    "prirec device visit phone.db --from visits.csv",
)


def visit(
    file: DeviceFile,
    place: Annotated[
        str | None, typer.Argument(metavar="POI", help="Id of the place, as in the catalogue.", show_default=False)
    ] = None,
    *,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", show_default="now", help="Local time, such as 2024-05-04T19:30.")
    ] = None,
    ignored: Annotated[bool, typer.Option("--ignored", help="It was shown, and not wanted.")] = False,
    id_: Annotated[
        str | None,
        typer.Option(
            "--id", metavar="TEXT", show_default="place and time", help="A name for this visit: told twice, kept once."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="CSV", help="File with the columns poi and, if any, time, label, id; others describe it."
        ),
    ] = None,
    remove: Annotated[str | None, typer.Option(metavar="ID", help="Remove the visit of this name.")] = None,
) -> None:
    """Record a visit, or many from a file. None of it leaves the device.

    What the device learns from visits goes into sums only masked, with noise, and within the budget."""
    from prirec.errors import UsageError

    if sum(given is not None for given in (place, source, remove)) != 1:
        raise UsageError("name a place, or a file after --from, or a visit after --remove: one of them")
    if place is None and (time, id_, ignored) != (None, None, False):
        raise UsageError("--time, --id and --ignored belong to one place")
    if remove is not None:
        _remove(file, remove)
    elif source is not None:
        _record_file(file, source)
    elif place is not None:
        _record_one(file, place, time=time, label=-1 if ignored else 1, id_=id_)


def _record_one(file: Path, place: str, *, time: str | None, label: int, id_: str | None) -> None:
    from prirec.cli.options import now, wall_clock_of
    from prirec.device.person import Visit

    told = Visit(place, now() if time is None else wall_clock_of(time, flag="--time"), label, {}, id_).checked()
    _record(file, [told], labelled=False)


def _record_file(file: Path, source: Path) -> None:
    from prirec.device.person import read_visits

    found = read_visits(source)
    _record(file, found.visits, labelled=found.labelled)


def _record(file: Path, visits: "list[Visit]", *, labelled: bool) -> None:
    from prirec.cli.output import note
    from prirec.device.device import check_visits, count_unknown_places

    with opened(file) as device:
        check_visits(device.person, visits)
        new = device.person.record_visits(visits)
        if labelled:
            device.person.set_labelled(so=True)
        unknown = count_unknown_places(device.person, visits)
    known = len(visits) - new
    typer.echo(f"recorded {new:,}" + (f"; {known:,} known already" if known else ""))
    if unknown:
        which = "the place is" if len(visits) == 1 else f"{unknown:,} are to places that are"
        note(f"{which} not among those that this device has downloaded: nothing is learnt there")


def _remove(file: Path, name: str) -> None:
    from prirec.errors import UsageError

    with opened(file) as device:
        if not device.person.remove_visit(name):
            raise UsageError("there is no visit of that name; prirec device export shows them")
    typer.echo("removed; what was learnt from it stays in the model until a campaign begins anew")


# prirec device run and download: what goes online.


if TYPE_CHECKING:
    import asyncio

    from prirec.device.device import DeviceStatus

DEVICE_RUN_EPILOG = examples("prirec device run phone.db", "prirec device run phone.db --seconds 60")
EPILOG_DOWNLOAD = examples("prirec device download phone.db --near 35.68,139.76")


def run(
    file: DeviceFile,
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, metavar="N", show_default="until stopped", help="For how long.")
    ] = None,
    code: Annotated[
        str, typer.Option(envvar=CODE, metavar="TEXT", help="If the device has not enrolled yet, and one is asked for.")
    ] = "",
) -> None:
    """Take part in rounds in the background, until stopped.

    Ctrl-C or SIGTERM stop it at any moment. It follows the signed log, downloads whole regions, and enters a sum only
    if the ledger covers it. What it does is said in one line each, without anything about the person."""
    import asyncio

    from prirec.cli.output import needing

    with needing("device"):
        import prirec.device.agent  # noqa: F401
    from prirec.device.sync import View

    async def until_stopped() -> None:
        stop = asyncio.Event()
        _end_with(stop, seconds)
        await device.take_part_until(stop, code=code, tell=_say)

    with opened(file) as device:
        View.of(device.person)  # whether it belongs somewhere is told first
        _say("running; Ctrl-C stops")
        asyncio.run(until_stopped())
    _say("stopped")


def download(
    file: DeviceFile,
    *,
    near: Annotated[str, typer.Option(metavar="LAT,LON", help="Where the person will be, in degrees.")],
) -> None:
    """Download the region around a point, to be offline there.

    The recommender sees which region, and nothing finer."""
    from prirec.cli.options import point_of
    from prirec.cli.output import needing

    with needing("device"):
        import prirec.device.agent  # noqa: F401
    here = point_of(near, flag="--near")
    with opened(file) as device:
        before = _places(device.status())
        device.download(near=here)
        typer.echo(f"downloaded {_places(device.status()) - before:,} places more")


def _places(status: "DeviceStatus") -> int:
    return 0 if status.belonging is None else status.belonging.places


def _end_with(stop: "asyncio.Event", seconds: float | None) -> None:
    import asyncio
    import signal
    from contextlib import suppress

    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # where the system has no such thing, Ctrl-C ends it with 130
            loop.add_signal_handler(one, stop.set)
    if seconds is not None:
        loop.call_later(seconds, stop.set)


def _say(words: str) -> None:
    from datetime import datetime

    from prirec.util.shown import printable

    typer.echo(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}  {printable(words)}")


# prirec device recommend: Algorithm 3 on the person's own device.


if TYPE_CHECKING:
    from prirec import Suggestion

DEVICE_RECOMMEND_EPILOG = examples(
    "prirec device recommend phone.db",
    "prirec device recommend phone.db --near 35.68,139.76 --at 2024-05-04T19:30 -k 5",
)


def recommend(
    file: DeviceFile,
    *,
    near: Annotated[
        str | None, typer.Option(metavar="LAT,LON", show_default="home", help="Where the person is, in degrees.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", show_default="no particular time", help="Local time, such as 2024-05-04T19:30."),
    ] = None,
    k: ListLength = 10,
    radius_km: Radius = 5.0,
    json: Json = False,
) -> None:
    """Recommend places, with reasons. It is done offline: nobody learns of it.

    Places that the person has visited are left out."""
    from prirec.cli.output import notes, show_json
    from prirec.cli.recommend import moment_of, show_suggestions

    here, time = moment_of(near, at)
    with opened(file) as device:
        lines = device.recommend(near=here, at=time, k=k, radius_km=radius_km)
    told, origin = _remarks(lines, radius_km=radius_km), "home" if here is None else "here"
    if json:
        show_json({"places": [line.as_dict() for line in lines], "distance_from": origin, "notes": told})
        return
    notes(told)
    show_suggestions(lines, origin=origin)


def _remarks(lines: "Sequence[Suggestion]", *, radius_km: float) -> list[str]:
    far = sum((line.distance_km or 0.0) > radius_km for line in lines)
    return [f"too few new places are within {radius_km:g} km; {far} beyond are shown too"] if far else []


# prirec device status, privacy, export and forget: what a person can see, take away and erase.


if TYPE_CHECKING:
    from prirec.device.device import Device, DeviceStatus, MembershipStatus

EPILOG_STATUS = examples("prirec device status phone.db", "prirec device status phone.db --json")
EPILOG_PRIVACY = examples("prirec device privacy phone.db", "prirec device privacy phone.db --json")
EPILOG_EXPORT = examples("prirec device export phone.db --out mine.json")
EPILOG_FORGET = examples("prirec device forget phone.db --yes", "prirec device forget phone.db --leave --yes")


def status(file: DeviceFile, *, json: Json = False) -> None:
    """Say what the device keeps, and where it belongs."""
    from prirec.cli.output import show_json, show_table

    with opened(file) as device:
        found = device.status()
    if json:
        show_json(asdict(found))
        return
    show_table((file.name, ""), _rows(found))
    if found.belonging is not None:
        typer.echo(f"the recommender's key: {found.belonging.recommender}")


def _rows(found: "DeviceStatus") -> list[tuple[str, str]]:
    kept = [
        ("visits", f"{found.visits:,}"),
        ("described by", ", ".join(found.described_by) or "nothing"),
        ("home", "told" if found.home else "not told"),
    ]
    belongs = found.belonging
    return [*kept, ("deployment", "none: prirec device init")] if belongs is None else [*kept, *_belonging(belongs)]


def _belonging(of: "MembershipStatus") -> list[tuple[str, str]]:
    part = "takes part" if of.takes_part else "takes no part"
    campaign = "none yet" if of.campaign is None else f"{of.campaign}: {part}, {of.learnt} of {of.rounds} rounds learnt"
    return [
        ("deployment", of.title),
        ("address", of.url),
        ("enrolled", "yes" if of.enrolled else "not yet: prirec device run"),
        ("tells of the home", "a coarse cell" if of.tells_a_cell else "nothing"),
        ("log, checked", f"{of.entries:,} entries"),
        ("campaign", campaign),
        ("places downloaded", f"{of.places:,}"),
        ("recommends", "yes" if of.can_recommend else "not yet: no model is published, or none is downloaded"),
        *([("learns nothing", f"{of.unusable}; it adds zeros to sums, at the full price")] if of.unusable else []),
    ]


def privacy(file: DeviceFile, *, json: Json = False) -> None:
    """Say what was spent of the budget on what, and what is left."""
    from prirec.cli.output import notes, show, show_json
    from prirec.privacy.ledger import account

    with opened(file) as device:
        found = account(device.ledger_store.ledger(), budget=device.budget, day=device.day)
    if json:
        show_json(found.as_dict())
        return
    show(found.panels())
    notes(found.notes)


def export(
    file: DeviceFile,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", show_default="shown here", help="New file, for its owner alone.")
    ] = None,
) -> None:
    """Give out all that the file holds on the person, as JSON."""
    import json

    from prirec.cli.output import finite, show_json
    from prirec.errors import UsageError

    with opened(file) as device:
        found = device.export()
    if out is None:
        show_json(found)
        return
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{out.name} is there already; name a new file") from None
    with os.fdopen(handle, "w", encoding="utf-8") as target:
        json.dump(finite(found), target, indent=2, ensure_ascii=False, allow_nan=False)
    typer.echo(f"wrote everything to {out}: keep it as you would keep the device")


def forget(
    file: DeviceFile,
    *,
    leave: Annotated[
        bool, typer.Option("--leave", help="Erase only if the recommender can be told that the device leaves.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Erase; without it nothing is done.")] = False,
) -> None:
    """Erase the person from the device, and leave the deployment.

    What was spent of the budget is not refunded: the ledger stays in the file, and counts if the device joins again."""
    from prirec.errors import UsageError

    if not yes:
        raise UsageError("this erases visits, profile, model and identity for good; add --yes to do so")
    with opened(file) as device:
        told = _left(device, insist=leave)
        device.forget()
    typer.echo(f"erased; {told}")
    typer.echo("what was spent is not refunded: the ledger stays, and says when this device took part and in what")


def _left(device: "Device", *, insist: bool) -> str:
    """What became of the deployment, in words. Whoever cannot be reached does not keep a person from erasing."""
    from prirec.cli.output import needing
    from prirec.errors import Fault, PeerError, ProtocolError, UsageError

    member = device.person.membership()
    if member is None:
        return "it belonged to no deployment"
    try:
        with needing("device"):
            device.leave()
    except PeerError as refusal:
        if refusal.fault is Fault.AUTH:
            return "the recommender does not know this device"
        if insist:
            raise
    except (ProtocolError, UsageError):
        if insist:
            raise
    else:
        return "the recommender was told, and has erased it too"
    return "the recommender could not be told: it knows a key that nobody holds any more"


# prirec device: the commands of one person's device.


DEVICE_EPILOG = examples(
    "prirec device init phone.db --url https://recommender.example:8443 --authority authority.pem",
    "prirec device visit phone.db noodle-bar",
    "prirec device recommend phone.db",
)


def build() -> typer.Typer:
    """The commands and their names."""
    made = subgroup("One person's device: what it knows stays in one file.", epilog=DEVICE_EPILOG)
    made.command("init", epilog=DEVICE_INIT_EPILOG)(init)
    made.command("profile", epilog=DEVICE_PROFILE_EPILOG)(profile)
    made.command("visit", epilog=DEVICE_VISIT_EPILOG)(visit)
    made.command("run", epilog=DEVICE_RUN_EPILOG)(run)
    made.command("download", epilog=EPILOG_DOWNLOAD)(download)
    made.command("recommend", epilog=DEVICE_RECOMMEND_EPILOG)(recommend)
    made.command("status", epilog=EPILOG_STATUS)(status)
    made.command("privacy", epilog=EPILOG_PRIVACY)(privacy)
    made.command("export", epilog=EPILOG_EXPORT)(export)
    made.command("forget", epilog=EPILOG_FORGET)(forget)
    return made
