"""The generated tables of wire-guide.md: fields of messages and documents, from the classes that the program uses."""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from msgspec import inspect

from prirec.protocols import messages, two_operators
from prirec.wire import documents, http, settings

PARTS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "joining": (
        http.JointHello, http.Challenge, http.Enrolment, http.SignedEnrolment, http.Claim, http.SignedClaim,
        http.Session, http.Mail, http.Done, http.Refusal,
    ),
    "log": (
        documents.LogEntry, documents.SignedEntry, documents.CoSignature, documents.SignedCoSignature, documents.Page,
        documents.Names, documents.KeyChange, documents.Rotation, documents.Rotations,
    ),
    "catalogue": (
        documents.Offer, documents.Manifest, documents.RegionLine, documents.Places, documents.Counts,
        documents.Edition, documents.EditionWithAverages, documents.AverageOfCity, documents.Scales, documents.Model,
        documents.Figures, documents.Figure, documents.Start,
    ),
    "campaign": (documents.Charter, settings.CampaignSettings, documents.Window),
    "report": (
        messages.Round, messages.Terms, two_operators.JointStatement, messages.Report, two_operators.ReportStatement,
    ),
}  # fmt: skip


def tables(part: str) -> str:
    return "\n\n".join(table(kind) for kind in PARTS[part])


def table(kind: type[msgspec.Struct]) -> str:
    """One class: its tag, if it has one, and its fields in their order."""
    info: Any = inspect.type_info(kind)
    tag = kind.__struct_config__.tag
    led = f"begins with the text `{tag}`" if tag is not None else "no text before the fields"
    rows = [
        f"| {at} | `{field.name}` | {words(field.type)} |"
        for at, field in enumerate(info.fields, start=tag is not None)
    ]
    return "\n".join([f"**`{kind.__name__}`**: {led}", "", "| at | field | what |", "|---|---|---|", *rows])


def words(kind: Any) -> str:
    """What a field may hold, in words."""
    match kind:
        case inspect.BytesType():
            return f"bytes{sized(kind.min_length, kind.max_length)}"
        case inspect.StrType():
            return f"text{sized(kind.min_length, kind.max_length, 'characters')}"
        case inspect.IntType():
            return f"whole number{between(kind)}"
        case inspect.FloatType():
            return f"real of 64 bits{between(kind)}"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return " or ".join(f"`{value}`" for value in kind.values)
        case inspect.VarTupleType():
            return f"list{sized(kind.min_length, kind.max_length, 'of them')}: each {words(kind.item_type)}"
        case inspect.StructType():
            return f"a `{kind.cls.__name__}`"
        case inspect.UnionType():
            return " or ".join("nothing" if isinstance(one, inspect.NoneType) else words(one) for one in kind.types)
    raise TypeError(f"the guide has no words for {kind}")


def sized(least: int | None, most: int | None, what: str = "") -> str:
    what = f" {what}" if what else ""
    if most is None:
        return "" if not least else f", at least {least}{what}"
    if least == most:
        return f", {most}{what}"
    return f", {least or 0} to {number(most)}{what}"


def between(kind: Any) -> str:
    least = kind.ge if kind.ge is not None else None if kind.gt is None else kind.gt + 1
    most = kind.le if kind.le is not None else None if kind.lt is None else kind.lt - 1
    if least is None and most is None:
        return ""
    return f" from {number(least)}" if most is None else f" from {number(least)} to {number(most)}"


def number(value: float | None) -> str:
    """A power of two as such."""
    if value is None:
        return "any"
    whole = int(value)
    for power in range(20, 64):
        for more in (0, 1):
            if whole + more == 2**power:
                return f"2^{power}" + (" - 1" if more else "")
    return f"{whole:,}" if whole == value else f"{value:g}"


PAGE_TABLES: dict[str, Callable[[], str]] = {part: partial(tables, part) for part in PARTS}
