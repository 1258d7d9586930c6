"""prirec device: the commands of one person's device. Each parses flags, calls `prirec.Device` and prints."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from prirec.cli.commands import add_commands, subgroup
from prirec.cli.options import (
    At,
    CodeFile,
    Json,
    ListLength,
    Near,
    Radius,
    enrolment_code,
    examples,
    moment_of,
    point_of,
)
from prirec.cli.output import note, notes, show, show_json, show_table
from prirec.util.shown import counted
from prirec.util.system import disable_core_dumps, needing

if TYPE_CHECKING:
    import asyncio

    from prirec.device.device import Device, DeviceStatus, MembershipStatus, Profile
    from prirec.device.traffic import SentField

DeviceFile: TypeAlias = Annotated[Path, typer.Argument(metavar="FILE", help="The device's file.")]


NOT_CHECKED = "not checked: this device has no catalogue yet; it gets one when one is published and it was online"
PROMISE_OF_TWO = (
    "What this device sends from now on stays within the budget while one of its deployment's two operators is honest, "
    "whatever all other devices do."
)


def existing(file: Path) -> "Device":
    """The device of a file that must be there. Only `init` makes one: a mistyped name is an error, not a new device."""
    from prirec.device.device import Device

    return Device.open(file, create=False)


# Joining a deployment


def init(
    file: DeviceFile,
    *,
    url: Annotated[str, typer.Option(metavar="URL", help="HTTPS address of the recommender.")],
    authority: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default="the system's authorities",
            help="CA certificate (PEM) that signed the recommender's TLS certificate.",
        ),
    ] = None,
    fingerprint: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Expected fingerprint of the recommender's key; joining fails if it differs."),
    ] = None,
    helper_fingerprint: Annotated[
        str | None,
        typer.Option(metavar="HEX", help="Expected fingerprint of the helper's key, with two operators."),
    ] = None,
    home: Annotated[
        str | None,
        typer.Option(
            metavar="LAT,LON",
            help="Where the person lives. It stays on the device, which downloads the regions around it.",
        ),
    ] = None,
    code_file: CodeFile = None,
    epsilon: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            show_default="1",
            help="Privacy budget ε of this person, over everything this device ever sends.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            show_default="1e-06",
            help="δ: probability with which the ε bound may fail, for each person.",
        ),
    ] = None,
    period_days: Annotated[
        int | None,
        typer.Option(
            metavar="N", show_default="for life", help="The budget holds for any N days in a row instead of for life."
        ),
    ] = None,
) -> None:
    """Join a deployment with a new device, stored in one file.

    Without --home the device downloads all regions. The budget is the person's own: beyond it the device sends
    nothing."""
    from dataclasses import replace

    from prirec.device.device import Device
    from prirec.util.shown import printable

    with needing("device"):  # before a file is made
        import prirec.device.client  # noqa: F401
    here = None if home is None else point_of(home, flag="--home")
    code = enrolment_code(code_file) or ""
    given = {"epsilon": epsilon, "delta": delta, "period_days": period_days}
    with Device.open(file) as device:
        budget = replace(device.budget, **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]
        device.set_budget(budget)  # before joining: nothing beyond it is ever sent
        joined = device.join(
            url, home=here, authority=authority or b"", fingerprint=fingerprint,
            helper_fingerprint=helper_fingerprint, code=code,
        )  # fmt: skip
        member = device.status().membership
    typer.echo(f"joined: {printable(joined.title)}")
    typer.echo(f"recommender's key, pinned from now on: {joined.recommender.hex()}")
    if fingerprint is None:
        typer.echo("compare it with the fingerprint that the operator published")
    if joined.helper:
        typer.echo(f"helper's key, pinned from now on: {joined.helper.hex()}")
        if helper_fingerprint is None:
            typer.echo("compare it with the fingerprint that the helper's own operator published")
        typer.echo(PROMISE_OF_TWO)
    if not joined.enrolled:
        typer.echo("not enrolled yet: the recommender stopped answering; prirec device run enrols")
    if member is not None and member.can_recommend:
        typer.echo(f"{counted(member.places, 'place')} downloaded; it recommends {member.recommends_with}")
    typer.echo(f"privacy budget: {budget.words}; nothing spent is refunded")


# The person's data


def profile(
    file: DeviceFile,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=VALUE", help="A number, a word, or words such as tea|music.", show_default=False),
    ] = None,
    *,
    home: Annotated[
        str | None, typer.Option(metavar="LAT,LON", help="Where the person lives, in degrees; stays on the device.")
    ] = None,
    forget: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Delete a value; repeatable.")] = None,
    json: Json = False,
) -> None:
    """Set or show what describes the person. None of it leaves the device.

    A word that looks like a number is put in double quotes. Names and values are those that the deployment declares,
    which is checked as soon as the device has its catalogue."""
    given = {**_parsed(values or ()), **dict.fromkeys(forget or ())}
    here = None if home is None else point_of(home, flag="--home")
    with existing(file) as device:
        if given or here is not None:
            device.describe(given, home=here)
        found = device.profile()
    if found.features is None and any(value is not None for value in given.values()):
        note(NOT_CHECKED)
    if json:
        show_json({"profile": found.values, "home": found.home, "features": found.features, "unused": found.unused})
    else:
        _show_profile(found)


def _parsed(values: Sequence[str]) -> dict[str, Any]:
    from prirec.device.person import parse_value
    from prirec.errors import UsageError

    found = {}
    for text in values:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UsageError("write NAME=VALUE, such as age=31")
        if name in found:
            raise UsageError(f"'{name}' is given twice")
        found[name] = parse_value(value)
    return found


def _show_profile(found: "Profile") -> None:
    rows = [
        (
            name,
            _words(value),
            "" if found.features is None else f"no: {why}" if (why := found.unused.get(name)) else "yes",
        )
        for name, value in found.values.items()
    ]
    rows += [] if found.home is None else [("home", f"{found.home[0]:g},{found.home[1]:g}", "")]
    if rows:
        show_table(("name", "value", "" if found.features is None else "used"), rows)
    else:
        typer.echo("no profile yet: prirec device profile FILE NAME=VALUE sets one")
    if found.missing:
        typer.echo(f"the deployment can also use: {', '.join(found.missing)}")


def _words(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else value if isinstance(value, str) else " | ".join(value)


def visit(
    file: DeviceFile,
    place: Annotated[
        str | None, typer.Argument(metavar="POI", help="Id of the place, as in the catalogue.", show_default=False)
    ] = None,
    *,
    time: Annotated[
        str | None, typer.Option(metavar="TIME", show_default="now", help="Local time, such as 2024-05-04T19:30.")
    ] = None,
    ignored: Annotated[bool, typer.Option("--ignored", help="The place was shown and not chosen.")] = False,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="TEXT", show_default="from place and time", help="Id of this visit; stored once."),
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--value", metavar="NAME=VALUE", help="What else is known of it, such as spend=12.50; repeatable."
        ),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="CSV",
            help="File with a column poi and, if any, time, label and id, or other names that data folders know for "
            "them; other columns describe the visit.",
        ),
    ] = None,
    skip_unknown: Annotated[
        bool,
        typer.Option("--skip-unknown", help="With --from: leave out visits at places that the device lacks."),
    ] = False,
    remove: Annotated[str | None, typer.Option(metavar="ID", help="Delete the visit with this id.")] = None,
) -> None:
    """Record a visit, or many from a file. None of it leaves the device.

    As soon as the device has a catalogue, places and values that are not in it are refused.

    What the device learns from visits enters sums only masked, with noise, and within the privacy budget."""
    from prirec.cli.options import now, wall_clock_of
    from prirec.device.person import Visit
    from prirec.errors import UsageError

    if sum(given is not None for given in (place, source, remove)) != 1:
        raise UsageError("name a place, or a file after --from, or a visit after --remove: exactly one of them")
    if place is None and (time, id_, ignored, values) != (None, None, False, None):
        raise UsageError("--time, --id, --ignored and --value are for one place")
    if skip_unknown and source is None:
        raise UsageError("--skip-unknown is for a file after --from")
    when = now() if time is None else wall_clock_of(time, flag="--time")
    with existing(file) as device:
        if remove is not None:
            device.remove_visit(remove)
            typer.echo(
                "deleted; nothing is recommended from it any more, and what was added to open sums stays in them"
            )
            return
        if source is not None:
            found = device.import_visits(source, skip_unknown=skip_unknown)
        else:
            found = device.record_visits([Visit(place or "", when, -1 if ignored else 1, _parsed(values or ()), id_)])
    typer.echo(f"recorded {found.new:,}" + (f"; {found.repeated:,} known already" if found.repeated else ""))
    if found.skipped:
        note(f"{found.skipped:,} left out: they are at places that this device does not have")
    if not found.checked:
        note(NOT_CHECKED)


# Online


def run(
    file: DeviceFile,
    *,
    seconds: Annotated[
        float | None, typer.Option(min=0.0, metavar="N", show_default="until stopped", help="Stop after N seconds.")
    ] = None,
    code_file: CodeFile = None,
) -> None:
    """Take part in rounds until stopped.

    Ctrl-C or SIGTERM stop it at any moment. The device follows the signed log, downloads whole regions, and enters a
    sum only if the privacy budget covers it. It prints one line for each step, without anything about the person."""
    import asyncio

    with needing("device"):
        import prirec.device.agent  # noqa: F401
        from prirec.device.sync import View

    code = enrolment_code(code_file) or ""

    async def until_stopped() -> None:
        stop = asyncio.Event()
        _stop_at_signals(stop, seconds)
        await device.take_part_until(stop, code=code, tell=_say)

    with existing(file) as device:
        View.of(device.person)  # StateError, before anything is printed, if the device is in no deployment
        _say("running; Ctrl-C stops")
        asyncio.run(until_stopped())
    _say("stopped")


def _stop_at_signals(stop: "asyncio.Event", seconds: float | None) -> None:
    import asyncio
    import signal
    from contextlib import suppress

    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # Windows has no such handlers: there Ctrl-C ends the program with 130
            loop.add_signal_handler(one, stop.set)
    if seconds is not None:
        loop.call_later(seconds, stop.set)


def _say(words: str) -> None:
    from datetime import datetime

    from prirec.util.shown import printable

    typer.echo(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}  {printable(words)}")


def download(
    file: DeviceFile,
    *,
    near: Annotated[str, typer.Option(metavar="LAT,LON", help="Where the person will be, in degrees.")],
) -> None:
    """Download the region around a point, for use offline.

    The recommender sees which region is downloaded, and nothing finer."""
    here = point_of(near, flag="--near")
    with existing(file) as device:
        typer.echo(f"downloaded {counted(device.download(near=here), 'place')} more")


# Offline: recommendations, and what a person can see, take away and erase


def recommend(
    file: DeviceFile,
    *,
    near: Near = None,
    at: At = None,
    k: ListLength = 10,
    radius_km: Radius = 5.0,
    json: Json = False,
) -> None:
    """Recommend places, with reasons. Computed offline: nobody learns of it.

    Places that the person has visited are left out."""
    from prirec.cli.recommend import show_suggestions
    from prirec.device.recommend import distance_notes

    here, time = moment_of(near, at)
    with existing(file) as device:
        places = device.recommend(near=here, at=time, k=k, radius_km=radius_km)
        home = "home" if device.profile().home is not None else "the middle of the visits"
        member = device.status().membership
    remarks = distance_notes(places, radius_km=radius_km)
    measured = any(one.distance_km is not None for one in places)
    origin = None if not measured else "here" if here is not None else home
    if json:
        model = None if member is None else member.model
        found = [one.to_dict() for one in places]
        show_json({"places": found, "distance_from": origin, "model": model, "notes": remarks})
        return
    notes(remarks)
    show_suggestions(places, origin=origin)
    if member is not None:
        typer.echo(f"computed {member.recommends_with}")


def status(file: DeviceFile, *, json: Json = False) -> None:
    """Show the deployment, campaign and data of this device."""
    from prirec.util.shown import printable

    with existing(file) as device:
        found = device.status()
    if json:
        show_json(asdict(found))
        return
    typer.echo(f"{file.name}: {printable(found.verdict)}")
    show_table(("", ""), _status_rows(found))


def _status_rows(found: "DeviceStatus") -> list[tuple[str, str]]:
    return [
        ("visits", "; ".join([f"{found.visits:,}", *_unused_visits(found.membership)])),
        ("profile", ", ".join(found.profile) or "empty"),
        ("home", "set" if found.home else "not set"),
        *(_membership_rows(found.membership) if found.membership is not None else ()),
    ]


def _unused_visits(of: "MembershipStatus | None") -> list[str]:
    if of is None:
        return []
    elsewhere = f"{of.visits_elsewhere:,} at places that this device does not have, from which nothing is learnt"
    unfit = f"{of.visits_unfit:,} described by what is not used ({of.unfit_because})"
    held = f"{of.visits_held_out:,} held out, to see how good recommendations are"
    return [elsewhere] * (of.visits_elsewhere > 0) + [unfit] * (of.visits_unfit > 0) + [held] * (of.visits_held_out > 0)


def _membership_rows(of: "MembershipStatus") -> list[tuple[str, str]]:
    listed = "on the operators' list" if of.helper_key else "on the roster"
    part = listed if of.takes_part else f"not {listed}{' yet' * bool(of.helper_key)}"
    learnt = f"{of.round} of {counted(of.rounds, 'round')} over"
    return [
        ("regions", "all" if of.all_regions else "those around home"),
        ("deployment", of.title),
        ("address", of.url),
        ("recommender's key", of.recommender_key),
        *([("helper's key", of.helper_key)] if of.helper_key else []),
        *((f"{one.operator}'s key", f"rotated on {_local(one.time)}; before: {one.old}") for one in of.rotated),
        ("enrolled", "yes" if of.enrolled else "no"),
        ("log", f"{counted(of.log_entries, 'entry', 'entries')}, verified"),
        ("campaign", "none yet" if of.campaign is None else f"{of.campaign}: {part}, {learnt}"),
        *([] if of.campaign is None else [("sums over everyone", _sums(of))]),
        *([] if of.window_closes is None else [("last window", f"until {_local(of.window_closes)}")]),
        ("places downloaded", f"{of.places:,}"),
        ("recommends with", of.model or "nothing yet"),
        *([] if of.quality is None else of.quality.rows),
        *(
            [("nothing is learnt", f"{of.unusable_because}; the device adds zeros to sums, at the full price")]
            if of.unusable_because
            else []
        ),
        *(
            [("zeros added", f"to {counted(of.zeros, 'sum')}, at the full price; the last time: {of.zeros_because}")]
            * (of.zeros > 0)
        ),
    ]


def _sums(of: "MembershipStatus") -> str:
    if of.helper_key:
        return f"at least {of.fewest:,} devices; ε holds while one of the two operators is honest"
    return (
        f"at least {of.fewest:,} of {of.people:,} devices; ε holds if at most {100 * of.corrupt:.3g} % of them work "
        "with the operator"
    )


def _local(time: int) -> str:
    from datetime import datetime

    return f"{datetime.fromtimestamp(time).astimezone():%Y-%m-%d %H:%M}"


def privacy(
    file: DeviceFile,
    *,
    floor: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            show_default="unchanged",
            help="From now on, take part only in sums over at least N devices; 0: as many as the campaign says.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show what was spent of the privacy budget, and on what."""
    with existing(file) as device:
        if floor is not None:
            device.set_floor(floor)
        found, floor, zeros = device.account(), device.floor, device.zeros
        member = device.person.membership()
    of_two = member is not None and bool(member.helper)
    if json:
        show_json(
            {
                **found.to_dict(),
                "two_operators": of_two,
                "floor": floor,
                "zeros": zeros.many,
                "zeros_because": zeros.why,
            }
        )
        return
    show(found.panels())
    if of_two:
        typer.echo(PROMISE_OF_TWO)
    if floor:
        typer.echo(f"This device takes part only in sums over at least {floor:,} devices.")
    if zeros.many:
        typer.echo(f"It added nothing but zeros to {zeros.many:,} of these sums; the last time: {zeros.why}.")
    notes(found.notes)


def traffic(file: DeviceFile, *, json: Json = False) -> None:
    """Show what this device sent for sums, field by field.

    Also: who learns what from each field. Reads only the device's file, offline. A report itself is erased once the
    recommender has it; until then the first bytes of each field are shown."""
    with existing(file) as device:
        found = device.traffic()
    if json:
        show_json(found.to_dict())
        return
    if found.name is not None:
        typer.echo(f"known to {'both operators' if found.operators == 2 else 'the operator'} as {found.name}")
    if not found.sums:
        typer.echo("nothing was sent for a sum")
        return
    show_table(
        ("sum", ">number", "on", ">μ²", "what became of it"),
        [(one.what, str(one.number), _date(one.day), f"{one.mu2:.6f}", one.state) for one in found.sums],
    )
    for kind in dict.fromkeys(one.kind for one in found.sums):
        last = [one for one in found.sums if one.kind == kind][-1]
        typer.echo(f"\nsent for {last.what}:")
        show_table(("message", "field", ">bytes", "begins", "what it is"), map(_field_cells, last.fields))
    for learns in found.learns:
        typer.echo(f"\nfrom its {learns.message}\n  the receiver learns: {learns.to_receiver}")
        typer.echo(f"  whoever listens learns: {learns.to_relay}\n  stays hidden: {learns.hidden}")


def _field_cells(one: "SentField") -> tuple[str, ...]:
    return (one.message, one.name, "" if one.bytes is None else f"{one.bytes:,}", one.begins, one.what)


def _date(day: int) -> str:
    from datetime import date, timedelta

    return (date(1970, 1, 1) + timedelta(days=day)).isoformat()


def export(
    file: DeviceFile,
    *,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", show_default="standard output", help="New file, readable by its owner only."),
    ] = None,
) -> None:
    """Export everything that the file holds on the person, as JSON."""
    from prirec.cli.output import write_private_json

    with existing(file) as device:
        found = device.export()
    if out is None:
        show_json(found)
        return
    write_private_json(out, found)
    typer.echo(f"wrote everything to {out}: guard it like the device")


def forget(
    file: DeviceFile,
    *,
    leave: Annotated[
        bool, typer.Option("--leave", help="Erase only if the recommender confirms that it has deleted the device.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Erase; without it nothing is done.")] = False,
) -> None:
    """Erase the person from the device, and leave the deployment.

    What was spent of the privacy budget is not refunded: the ledger stays in the file, and counts if the device joins
    again."""
    from prirec.errors import UsageError

    if not yes:
        raise UsageError("this erases visits, profile, model and identity for good; add --yes to do so")
    with existing(file) as device:
        departure = device.leave_and_forget(insist=leave)
    typer.echo(f"erased; {departure}")
    typer.echo("what was spent is not refunded: the ledger stays, and says when this device took part and in what")


def build() -> typer.Typer:
    """The group of commands, each with examples of its arguments."""
    group = subgroup(
        "One person's device: data, model and budget in one file.",
        epilog=examples(
            "prirec device init phone.db --url https://recommender.example:8443 --authority authority.pem",
            "prirec device visit phone.db noodle-bar",
            "prirec device recommend phone.db",
        ),
    )
    add_commands(group, "prirec device", {
        "init": (
            init,
            "phone.db --url https://recommender.example:8443 --authority authority.pem",
            "phone.db --url https://recommender.example --home 35.68,139.76 --epsilon 0.5",
        ),
        "profile": (
            profile, "phone.db age=31 'likes=music|tea' --home 35.68,139.76", "phone.db --forget age", "phone.db"
        ),
        "visit": (
            visit, "phone.db noodle-bar", "phone.db museum --time 2024-05-04T19:30 --ignored",
            "phone.db --from visits.csv",
        ),
        "run": (run, "phone.db", "phone.db --seconds 60"),
        "download": (download, "phone.db --near 35.68,139.76"),
        "recommend": (recommend, "phone.db", "phone.db --near 35.68,139.76 --at 2024-05-04T19:30 -k 5"),
        "status": (status, "phone.db", "phone.db --json"),
        "privacy": (privacy, "phone.db", "phone.db --floor 1000", "phone.db --json"),
        "traffic": (traffic, "phone.db", "phone.db --json"),
        "export": (export, "phone.db --out mine.json"),
        "forget": (forget, "phone.db --yes", "phone.db --leave --yes"),
    })  # fmt: skip
    group.callback()(disable_core_dumps)
    return group
