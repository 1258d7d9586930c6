"""Vectors of a sum over two operators: every message as it travels, what is refused, and what is signed and hashed."""

from collections.abc import Iterator
from typing import Any

from vectors import reference as ref
from vectors import reference_messages as wire
from vectors.entry import SECRET, SEED, Vector, vector

OF: list[Any] = [bytes(range(16)), "interaction", 7, 0, 0]
DEVICE, LEADER, HELPER = bytes([1] * 32), bytes([2] * 32), bytes([3] * 32)
NONCE, HELD, SIGNED = bytes(range(16)), bytes(range(32)), bytes(range(64))
PUBLIC, BOX = bytes(range(128)), bytes(range(176))
LINE: list[Any] = [DEVICE, NONCE, PUBLIC, HELD, BOX, SIGNED, b"verifier"]
MESSAGES: dict[str, tuple[str, bytes, bytes, list[Any]]] = {
    "a report": ("report", DEVICE, LEADER, [NONCE, HELD, PUBLIC, b"box", BOX, SIGNED]),
    "a report with a long box": ("report", DEVICE, LEADER, [NONCE, HELD, PUBLIC, bytes(300), BOX, SIGNED]),
    "an empty batch": ("batch", LEADER, HELPER, [0, []]),
    "a batch of two": ("batch", LEADER, HELPER, [200, [LINE, LINE]]),
    "a batch of sixteen": ("batch", LEADER, HELPER, [70_000, [LINE] * 16]),
    "no verdicts": ("verdicts", HELPER, LEADER, [0, []]),
    "verdicts of every reason": ("verdicts", HELPER, LEADER, [1, [[0, SIGNED], *([why, b""] for why in range(1, 9))]]),
    "the leader's closing": ("closing", LEADER, HELPER, [3, HELD, 100, SIGNED, HELD]),
    "the helper's closing": ("closing", HELPER, LEADER, [2**31 - 1, HELD, 2**31 - 1, SIGNED, HELD]),
    "a noised share": ("noised share", LEADER, HELPER, [bytes(range(32)), HELD]),
    "an empty noised share": ("noised share", HELPER, LEADER, [b"", HELD]),
    "a signature on the sum": ("opened sum", HELPER, LEADER, [SIGNED]),
    "a round that is given up": ("given up", LEADER, HELPER, []),
    "a round that the helper gives up": ("given up", HELPER, LEADER, []),
}


def spelt(claim: str, **changes: Any) -> bytes:
    tag, sender, receiver, fields = MESSAGES[claim]
    parts = {"tag": tag, "of": OF, "sender": sender, "receiver": receiver, "fields": fields}
    return wire.message(**(parts | changes))  # type: ignore[arg-type]


def changed(claim: str, at: int, value: Any) -> bytes:
    fields = list(MESSAGES[claim][3])
    fields[at] = value
    return spelt(claim, fields=fields)


def messages() -> Iterator[Vector]:
    for claim, (tag, sender, receiver, fields) in MESSAGES.items():
        parts = {"of": OF, "sender": sender, "receiver": receiver, "fields": fields}
        yield vector(claim, "message", tag=tag, **parts)
        yield vector(claim, "read", data=spelt(claim))
    report, batch, verdicts, closing = "a report", "a batch of two", "verdicts of every reason", "the leader's closing"
    one = spelt(report)
    for claim, data in {
        "nothing": b"",
        "one byte more": one + b"\0",
        "one byte less": one[:-1],
        "another version": one.replace(b"report\x04", b"report\x03", 1),
        "another tag": one.replace(b"\xa6report", b"\xa6rapport"[:7], 1),
        "a map": b"\x80",
        "a field more": spelt(report, fields=[*MESSAGES[report][3], b""]),
        "a field less": spelt(report, fields=MESSAGES[report][3][:-1]),
        "a nonce of 15 bytes": changed(report, 0, NONCE[1:]),
        "a hash of 33 bytes": changed(report, 1, HELD + b"\0"),
        "a public part of 127 bytes": changed(report, 2, PUBLIC[1:]),
        "a leader's box that is text": changed(report, 3, "box"),
        "a helper's box of 175 bytes": changed(report, 4, BOX[1:]),
        "a helper's box of 177 bytes": changed(report, 4, BOX + b"\0"),
        "a signature of 63 bytes": changed(report, 5, SIGNED[1:]),
        "a name of 31 bytes": spelt(report, sender=DEVICE[1:]),
        "a receiver of 33 bytes": spelt(report, receiver=LEADER + b"\0"),
        "a deployment of 15 bytes": spelt(report, of=[OF[0][1:], *OF[1:]]),
        "a round without a kind": spelt(report, of=[OF[0], "", *OF[2:]]),
        "a round's number of 2^31": spelt(report, of=[*OF[:2], 2**31, 0, 0]),
        "a batch's number of 2^31": changed(batch, 0, 2**31),
        "a batch of something else than reports": changed(batch, 1, [b"report"]),
        "a line without its verifier": changed(batch, 1, [LINE[:-1]]),
        "a line with a short name": changed(batch, 1, [[DEVICE[1:], *LINE[1:]]]),
        "a line with a short signature": changed(batch, 1, [[*LINE[:5], SIGNED[1:], b""]]),
        "a reason that there is not": changed(verdicts, 1, [[9, b""]]),
        "seeds of 65 bytes": changed(verdicts, 1, [[0, SIGNED + b"\0"]]),
        "a verdict that is a number": changed(verdicts, 1, [0]),
        "a closing without its commitment": spelt(closing, fields=MESSAGES[closing][3][:-1]),
        "a count that is text": changed(closing, 2, "100"),
        "a noised share without its salt": spelt("a noised share", fields=[bytes(32)]),
        "a salt of 31 bytes": changed("a noised share", 1, HELD[1:]),
        "a sum's signature of 65 bytes": changed("a signature on the sum", 0, SIGNED + b"\0"),
        "a round that is given up, with a reason": spelt("a round that is given up", fields=[b"why"]),
        "a number spelt longer than it is": spelt("an empty batch").replace(b"\0\x90", b"\xcc\0\x90"),
        "bytes spelt longer than they are": one.replace(b"\xc4\x10" + NONCE, b"\xc5\0\x10" + NONCE),
        "a list spelt longer than it is": spelt("an empty batch")[:-1] + b"\xdc\0\0",
        "a length that is only promised": spelt("an empty batch")[:-1] + b"\xdd\xff\xff\xff\xff",
    }.items():
        yield vector(claim, "read", data=data)


TERMS: list[Any] = ["two_operators", 445, 64, 12, 4096, 100, 0, 0, 123_456]


def statements() -> Iterator[Vector]:
    operators = [LEADER, ref.agreement_public(SECRET), HELPER, ref.agreement_public(SEED)]
    agreed: dict[str, Any] = {
        "of": OF, "terms": TERMS, "model": HELD, "operators": operators, "listed": bytes([4] * 32), "people": 1000
    }  # fmt: skip
    yield vector("what everyone holds", "task", **agreed)
    for claim, other in {
        "another round": {"of": [*OF[:2], 8, 0, 0]},
        "other terms": {"terms": [*TERMS[:-1], 1]},
        "another model": {"model": bytes(32)},
        "operators the other way round": {"operators": operators[2:] + operators[:2]},
        "another list of people": {"listed": bytes([5] * 32)},
        "more people": {"people": 1001},
    }.items():
        yield vector(f"what everyone holds: {claim}", "task", **(agreed | other))
    held = wire.task(**agreed)
    said: dict[str, Any] = {"held": held, "name": DEVICE, "nonce": NONCE, "public": PUBLIC}
    yield vector("what a device signs", "report_signed", **said, boxes=[b"leader's", BOX])
    yield vector("what a device signs: boxes the other way round", "report_signed", **said, boxes=[BOX, b"leader's"])
    for role in ("leader", "helper"):
        yield vector(f"what the {role}'s box is bound to", "box_fields", role=role, **said)
    keys = {"leader": (SECRET, operators[3]), "helper": (SEED, operators[1])}
    for role, (secret, peer) in keys.items():
        yield vector(f"the verification key, by the {role}", "verification_key", secret=secret, peer=peer, held=held)
    yield vector("a key of low order", "verification_key", secret=SECRET, peer=bytes(32), held=held)
    reports = [wire.report_signed(**(said | {"name": name}), boxes=[b"", BOX]) for name in (DEVICE, LEADER, HELPER)]
    for many in (0, 1, 3):
        yield vector(f"{many} accepted reports", "accepted", held=held, reports=reports[:many])
    yield vector("the same in another order", "accepted", held=held, reports=reports[::-1])
    closing: dict[str, Any] = {"held": held, "batches": 3, "accepted": HELD, "count": 1000}
    yield vector("what both sign of the set", "closed", **closing)
    closed = wire.sha256(wire.closed(**closing)).digest()
    for name in (LEADER, HELPER):
        yield vector(
            f"a commitment by {name[:1].hex()}", "commitment", closed=closed, name=name, salt=HELD, share=bytes(24)
        )  # fmt: skip
    yield vector("what both sign of the sum", "sum_signed", closed=closed, total=bytes(range(24)))
