"""What the product answers to the vectors of campaigns."""

from typing import Any

import msgspec

from prirec.device import sync
from prirec.privacy.noise import Participants
from prirec.privacy.plan import Kind, Sum, plan
from prirec.protocols.codec import decode_with
from prirec.wire.documents import LogEntry, Rotation, SignedCoSignature, SignedEntry, Window, address, read
from prirec.wire.rotations import Operators

KINDS = (Kind.POPULARITY, Kind.MOMENTS, Kind.INTERACTION, Kind.QUALITY)


def release(i: dict[str, Any]) -> list[int]:
    parts, which = [float(part) for part in i["parts"]], int(i["which"])
    crowd = Participants(1000, floor=100, operators=2)
    sums = [
        Sum(
            kind=kind, share=part / sum(parts), crowd=crowd, length=int(i["entries"]),
            sensitivity=float(i["sensitivity"]), releases=int(i["times"]) if at == which else 1,
        )
        for at, (kind, part) in enumerate(zip(KINDS, parts, strict=True))
    ]  # fmt: skip
    found = plan(sums, epsilon_per_user=float(i["epsilon"]), delta=float(i["delta"])).release(KINDS[which])
    return [found.norm.fraction_bits, int(found.norm.units), found.wanted_whole]


def window(values: list[str]) -> Window:
    charter, kind, number, people, entries, listed, model, opens, closes = values
    hashes = (bytes.fromhex(one) for one in (charter, listed, model))
    charter_hash, head, held = hashes
    whole = int(number), int(people), int(entries)
    return Window(charter_hash, kind, *whole, head, held, int(opens), int(closes))  # type: ignore[arg-type]


def extended(i: dict[str, Any]) -> None:
    sync._refuse_other_window(window(i["before"]), window(i["now"]))


def co_signed(i: dict[str, Any]) -> list[Any]:
    data = bytes.fromhex(i["data"])
    signed = decode_with(msgspec.msgpack.Decoder(SignedCoSignature), data, limit=len(data))
    signed.verify(bytes.fromhex(i["helper"]), deployment=bytes.fromhex(i["deployment"]))
    return [signed.statement.length, signed.statement.last, signed.statement.time]


def rotated(i: dict[str, Any]) -> list[bytes]:
    recommender, helper, deployment = (bytes.fromhex(i[name]) for name in ("recommender", "helper", "deployment"))
    said = [read(Rotation, body, name=address(body)) for body in map(bytes.fromhex, i["rotations"])]
    now = Operators(recommender, helper).after_all(said, deployment=deployment)
    now.check(deployment=deployment)
    return [now.recommender, now.helper]


def in_force(i: dict[str, Any]) -> list[list[Any]]:
    latest, begun = dict[str, bytes](), set[bytes]()
    for subject, document in i["entries"]:
        entry = LogEntry(1, bytes(16), 0, bytes(32), subject, bytes.fromhex(document))
        sync._apply(latest, SignedEntry(entry, bytes(64)), begun)
    return [[subject, latest[subject]] for subject in sorted(latest)]


OPERATIONS = {
    "release": release,
    "window_bound": lambda i: window(i["fields"]).bound,
    "extended": extended,
    "co_signed": co_signed,
    "in_force": in_force,
    "rotated": rotated,
}
