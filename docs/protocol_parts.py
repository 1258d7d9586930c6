"""The generated parts of protocols.md and who-learns-what.md: drawn from the tables, the types and rehearsed rounds."""

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path

import rehearsal
from prirec.protocols import party
from prirec.protocols.journal import LIFE
from prirec.protocols.messages import WireStruct, step
from prirec.protocols.party import Finished, Send, Stage, State
from rehearsal import Played, Turn
from who_learns_what import CONTENTS, MESSAGES, PARTS, Disclosure, Role, Sealed

ORDER = list(State)
DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "prirec"
TABLES: dict[str, tuple[Role, tuple[rehearsal.Way, ...], Mapping[State, State]]] = {
    "NEIGHBOUR": (Role.NEIGHBOUR, ("shares",), {}),
    "RECEIVER": (Role.USER, ("shares",), party.RECEIVER_STEPS),
    "PAD_MEMBER": (Role.MEMBER, ("pads",), {}),
    "PAD_COLLECTOR": (Role.COLLECTOR, ("pads",), party.PAD_STEPS),
    "MEMBER": (Role.MEMBER, ("double",), {}),
    "COLLECTOR": (Role.COLLECTOR, ("double",), party.COLLECTOR_STEPS),
    "DEVICE": (Role.DEVICE, ("two_operators",), {}),
    "LEADER": (Role.LEADER, ("two_operators",), party.LEADER_STEPS),
    "HELPER": (Role.HELPER, ("two_operators",), {}),
}


def words(module: str) -> str:
    """A module's own words, with links to what they refer to."""
    name = f"prirec.{module.removesuffix('.py').removesuffix('/__init__').replace('/', '.')}"
    text = inspect.getdoc(import_module(name)) or ""
    text = re.sub(r"decisions/(\d{4})", _decision, text)
    quoted = "\n".join(f"> {line}".rstrip() for line in text.splitlines())
    return f"[`{module}`](../src/prirec/{module}) says:\n\n{quoted}"


def _decision(match: re.Match[str]) -> str:
    (page,) = (DOCS / "decisions").glob(f"{match[1]}-*.md")
    return f"[decision {match[1]}](decisions/{page.name})"


def diagram(table: str) -> str:
    """A table of legal moves as a state diagram; each arrow says what is written, and what is sent after that."""
    role, ways, steps = TABLES[table]
    legal = getattr(party, table.removeprefix("PAD_") if table == "PAD_COLLECTOR" else table)
    arrows = {(before, step(kind), after) for before, row in legal.items() for kind, after in row.items()}
    arrows |= {(before, "time is over", after) for before, after in steps.items()}
    watched = [turn for way in ways for played in rehearsal.plays(way) for turn in played.turns if turn.role is role]
    seen = {(turn.before, turn.event, turn.after) for turn in watched}
    reached = {State.IDLE, *(turn.after for turn in watched)}
    if missing := {arrow for arrow in arrows if arrow[0] in reached} - seen:
        raise ValueError(f"no rehearsal of {table} shows {sorted(missing)}")
    quiet = {(turn.before, turn.event) for turn in watched if turn.after is turn.before and not turn.actions}
    lines = [f'    state "{_box(state, quiet)}" as {state.name}' for state in ORDER if state in reached]
    moving = [turn for turn in watched if (turn.before, turn.event) not in quiet or turn.after is not turn.before]
    drawn = sorted({(ORDER.index(turn.before), ORDER.index(turn.after), _label(turn)) for turn in moving})
    lines += [f"    {ORDER[before].name} --> {ORDER[after].name}: {label}" for before, after, label in drawn]
    last = sorted({state.name for state in reached} - {turn.before.name for turn in watched})
    return _mermaid(["    [*] --> IDLE", *lines, *(f"    {state} --> [*]" for state in last)])


def _box(state: State, quiet: set[tuple[State, str]]) -> str:
    """A state, and what it takes in without leaving it or answering: as arrows these would cover others."""
    return "<br/>".join([state, *sorted(f"takes {event}" for at, event in quiet if at is state)])


def _label(turn: Turn) -> str:
    did = [turn.event]
    did += [f"writes {', '.join(turn.writes)}"] if turn.writes else []
    did += [f"sends {', '.join(turn.sends)}"] if turn.sends else []
    did += ["has the sum"] if turn.opens else []
    return "<br/>".join(did)


def life() -> str:
    """The stages of the journal."""
    lines = [f"    {before.name} --> {after.name}" for before, row in LIFE.items() for after in row]
    ends = [f"    {stage.name} --> [*]" for stage, row in LIFE.items() if not row]
    return _mermaid([f"    [*] --> {min(Stage).name}", *lines, *ends])


def _mermaid(lines: list[str]) -> str:
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def stages() -> str:
    """How far each party's journal comes in a round that ends well."""
    lines = ["| protocol | party | its journal |", "|---|---|---|"]
    for way in rehearsal.WAYS:
        turns, written = rehearsal.play(way).turns, dict[Role, list[str]]()
        for turn in turns:
            so_far = written.setdefault(turn.role, [])
            so_far += [stage for stage in turn.writes if stage not in so_far]
        lines += [f"| {_title(way)} | {role} | {' → '.join(stages)} |" for role, stages in written.items()]
    return "\n".join(lines)


def sequence(way: str) -> str:
    """The messages of a round in their order."""
    played = rehearsal.play(way)
    lines = ["| message | from | to | messages | written before it is sent |", "|---|---|---|---|---|"]
    for kind in dict.fromkeys(type(message) for message in played.sent):
        sent = [message for message in played.sent if type(message) is kind]
        roles = [" and ".join(dict.fromkeys(_roles(played, sent, end))) for end in ("sender", "receiver")]
        first = next(turn for turn in played.turns if step(kind) in turn.sends)
        written = ", ".join(first.written_before(Send))
        lines.append(f"| {step(kind)} | {' | '.join(roles)} | {len(sent)} | {written} |")
    opener = next(turn for turn in played.turns if turn.opens)
    written = ", ".join(opener.written_before(Finished))
    return "\n".join([*lines, f"| *the sum is open* | | {opener.role} | | {written} |"])


def _roles(played: Played, sent: Sequence[WireStruct], end: str) -> Iterator[str]:
    return (played.roles[getattr(message, end)] for message in sent)


def _title(way: str) -> str:
    return {
        "shares": "Algorithm 1",
        "pads": "pads",
        "double": "double masks",
        "two_operators": "two operators",
    }[way]


def used_in() -> dict[type[WireStruct], list[str]]:
    """In which protocols each message is sent."""
    sent = {way: chain.from_iterable(played.sent for played in rehearsal.plays(way)) for way in rehearsal.WAYS}
    kinds = {way: {type(message) for message in messages} for way, messages in sent.items()}
    return {kind: [way for way in kinds if kind in kinds[way]] for kind in MESSAGES}


def disclosures() -> str:
    """Every message, with all of its fields and all that it shows."""
    ways = used_in()
    blocks = []
    for kind, one in MESSAGES.items():
        paths = ", ".join(f"{sender} → {receiver}" for sender, receiver in one.ways)
        where = "all" if ways[kind] == list(rehearsal.WAYS) else ", ".join(map(_title, ways[kind]))
        blocks.append([f"### {step(kind)}", "", f"{paths}. In: {where}.", "", *_shown(one)])
    return _blocks(blocks)


def contents() -> str:
    """Every content of a sealed box, with all of its fields and all that it shows."""
    blocks = []
    for kind, one in CONTENTS.items():
        places = ", ".join(step(message) for message in one.inside)
        blocks.append([f"### {kind.__struct_config__.tag}", "", f"Inside: {places}.", "", *_shown(one)])
    return _blocks(blocks)


def _shown(one: Disclosure) -> list[str]:
    rows = [f"| `{name}` | {said} |" for name, said in one.fields.items()]
    others = "to whoever relays the box" if isinstance(one, Sealed) else "to whoever relays it or listens"
    said = {"to the receiver": one.to_receiver, others: one.to_relay, "stays hidden": one.hidden}
    return ["| | |", "|---|---|", *rows, *(f"| **{to}** | {text} |" for to, text in said.items())]


def parts() -> str:
    """What the parts of messages are made of."""
    lines = ["| part | field | |", "|---|---|---|"]
    for kind, fields in PARTS.items():
        name = "head of every message" if kind.__name__ == "Message" else kind.__name__.lower()
        lines += [f"| {name} | `{field}` | {said} |" for field, said in fields.items()]
    return "\n".join(lines)


def _blocks(blocks: list[list[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks)


def as_json() -> str:
    """Messages, contents of boxes and who learns what from them, for `prirec device traffic` and the auditor's page."""
    ways = used_in()
    messages = [
        {
            "name": step(kind), "in": [_title(way) for way in ways[kind]],
            "ways": [[str(sender), str(receiver)] for sender, receiver in one.ways], **_as_data(one),
        }
        for kind, one in MESSAGES.items()
    ]  # fmt: skip
    boxes = [
        {"name": kind.__struct_config__.tag, "inside": [step(message) for message in one.inside], **_as_data(one)}
        for kind, one in CONTENTS.items()
    ]
    return json.dumps({"messages": messages, "boxes": boxes}, indent=1, ensure_ascii=False) + "\n"


def _as_data(one: Disclosure) -> dict[str, object]:
    return {
        "fields": dict(one.fields), "to_receiver": one.to_receiver, "to_relay": one.to_relay, "hidden": one.hidden
    }  # fmt: skip


PARTS_OF_PAGES: Mapping[str, Callable[..., str]] = {
    "words": words,
    "diagram": diagram,
    "sequence": sequence,
    "life": life,
    "stages": stages,
    "messages": disclosures,
    "contents": contents,
    "parts": parts,
}


def filled(page: Path) -> str:
    """The page with everything between its marks written anew; the rest of it is written by hand."""
    mark = r"(<!-- generated: (\w+) ?(\S*) -->\n).*?(<!-- end -->)"

    def fresh(match: re.Match[str]) -> str:
        arguments = [match[3]] if match[3] else []
        return f"{match[1]}{PARTS_OF_PAGES[match[2]](*arguments)}\n{match[4]}"

    return re.sub(mark, fresh, page.read_text(encoding="utf-8"), flags=re.DOTALL)
