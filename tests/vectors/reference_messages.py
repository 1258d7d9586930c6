"""The messages of a sum over two operators, and what is signed and hashed in it: MessagePack by hand."""

from hashlib import sha256
from struct import pack, unpack
from typing import Any

from vectors.reference import agree, demand, derive

VERSION = 4
SUITE = "HPKE: X25519, HKDF-SHA256, AES-128-GCM; PINE-01: Field64, HMAC-SHA256, AES-128-CTR"


def packed(value: Any) -> bytes:
    """The shortest spelling of nothing, a list, text, bytes, a whole number that is not negative, or a real of 64
    bits."""
    if value is None:
        return b"\xc0"
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, list):
        heads: tuple[tuple[int, bytes], ...] = (
            (16, bytes([0x90 | len(value) % 16])),
            (2**16, b"\xdc"),
            (2**32, b"\xdd"),
        )
        return headed(heads, len(value)) + b"".join(packed(one) for one in value)
    if isinstance(value, bytes):
        return headed(((2**8, b"\xc4"), (2**16, b"\xc5"), (2**32, b"\xc6")), len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return headed(((32, bytes([0xA0 | len(text) % 32])), (2**8, b"\xd9"), (2**16, b"\xda")), len(text)) + text
    if isinstance(value, float):
        return b"\xcb" + pack(">d", value)
    heads = (128, bytes([value % 128])), (2**8, b"\xcc"), (2**16, b"\xcd"), (2**32, b"\xce"), (2**64, b"\xcf")
    return headed(heads, value)


def headed(heads: tuple[tuple[int, bytes], ...], number: int) -> bytes:
    """The first head that the number fits, and the number behind it, unless the head holds it."""
    most, head = next((most, head) for most, head in heads if number < most)
    return head + (number.to_bytes(most.bit_length() // 8, "big") if most >= 2**8 else b"")


def unpacked(data: bytes) -> Any:
    """The one value that these bytes are, in their shortest spelling."""
    value, rest = first_of(data)
    demand(rest == b"" and packed(value) == data, "DECODE")
    return value


def first_of(data: bytes) -> tuple[Any, bytes]:
    demand(bool(data), "DECODE")
    head, rest = data[0], data[1:]
    widths = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDC: 2, 0xDD: 4, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
    if head < 0x80 or head == 0xC0:
        return (None if head == 0xC0 else head), rest
    if head in (0xC2, 0xC3):
        return head == 0xC3, rest
    if head == 0xCB:
        demand(len(rest) >= 8, "DECODE")
        return unpack(">d", rest[:8])[0], rest[8:]
    if head in widths:
        size, rest = int.from_bytes(rest[: widths[head]], "big"), rest[widths[head] :]
    else:
        demand(0x90 <= head < 0xC0, "DECODE")
        size = head % 16 if head < 0xA0 else head % 32
    if head in (0xCC, 0xCD, 0xCE, 0xCF):
        return size, rest
    if 0x90 <= head < 0xA0 or head in (0xDC, 0xDD):
        demand(size <= len(rest), "DECODE")
        found = []
        for _ in range(size):
            one, rest = first_of(rest)
            found.append(one)
        return found, rest
    demand(len(rest) >= size, "DECODE")
    try:
        return (rest[:size] if head in (0xC4, 0xC5, 0xC6) else rest[:size].decode()), rest[size:]
    except UnicodeDecodeError:
        demand(False, "DECODE")
        raise


# What a field may be: a length of bytes, (least, most) of bytes, "number", or a list of records

LINE = [32, 16, 128, 32, 176, 64, (0, 2**20)]  # name, nonce, public part, hash, box, signature, verifier share
FIELDS: dict[str, list[Any]] = {
    "report": [16, 32, 128, (0, 2**32), 176, 64],
    "batch": ["number", [LINE]],
    "verdicts": ["number", [["reason", (0, 64)]]],
    "closing": ["number", 32, "number", 64, 32],
    "noised share": [(0, 2**32), 32],
    "opened sum": [64],
    "given up": [],
}
HEAD = ["version", [16, "kind", "number", "number", "number"], 32, 32]


def message(*, tag: str, of: list[Any], sender: bytes, receiver: bytes, fields: list[Any]) -> bytes:
    return packed([tag, VERSION, of, sender, receiver, *fields])


def read(*, data: bytes) -> list[Any]:
    """The parts of a message, as it travels."""
    found = unpacked(data)
    demand(isinstance(found, list) and bool(found) and found[0] in FIELDS, "DECODE")
    fits(found[1:], [*HEAD, *FIELDS[found[0]]])
    return [str(found[0]), *found[2:]]


def fits(values: Any, kinds: list[Any]) -> None:
    demand(isinstance(values, list) and len(values) == len(kinds), "DECODE")
    for value, kind in zip(values, kinds, strict=True):
        if kind in ("number", "reason", "version"):
            least, most = {"number": (0, 2**31 - 1), "reason": (0, 8), "version": (VERSION, VERSION)}[kind]
            demand(isinstance(value, int) and least <= value <= most, "DECODE")
        elif kind == "kind":
            demand(isinstance(value, str) and 1 <= len(value) <= 32, "DECODE")
        elif isinstance(kind, list) and len(kind) == 1:
            demand(isinstance(value, list) and len(value) <= 2**14, "DECODE")
            for one in value:
                fits(one, kind[0])
        elif isinstance(kind, list):
            fits(value, kind)
        else:
            least, most = (kind, kind) if isinstance(kind, int) else kind
            demand(isinstance(value, bytes) and least <= len(value) <= most, "DECODE")


# What is signed and hashed


def task(
    *, of: list[Any], terms: list[Any], model: bytes, operators: list[bytes], listed: bytes, people: int
) -> bytes:  # fmt: skip
    """The hash of what everyone holds; operators are leader, its box key, helper, its box key."""
    return sha256(packed(["prirec joint task", VERSION, of, terms, model, *operators, listed, people])).digest()


def report_signed(*, held: bytes, name: bytes, nonce: bytes, public: bytes, boxes: list[bytes]) -> bytes:
    return packed(["prirec report", held, name, nonce, public, *(sha256(box).digest() for box in boxes)])


def box_fields(*, role: str, held: bytes, name: bytes, nonce: bytes, public: bytes) -> list[Any]:
    return ["prirec report", VERSION, SUITE, role, held, name, nonce, public]


def verification_key(*, secret: bytes, peer: bytes, held: bytes) -> bytes:
    fields = [("text", "prirec"), ("number", VERSION), ("text", "verification key"), ("bytes", held)]
    return derive(agree(secret, peer=peer), fields=fields)


def accepted(*, held: bytes, reports: list[bytes]) -> bytes:
    """The chain over what the accepted devices have signed."""
    found = held
    for report in reports:
        found = sha256(found + sha256(report).digest()).digest()
    return found


def closed(*, held: bytes, batches: int, accepted: bytes, count: int) -> bytes:
    return packed(["prirec closing", held, batches, accepted, count])


def commitment(*, closed: bytes, name: bytes, salt: bytes, share: bytes) -> bytes:
    return sha256(packed(["prirec noised share", closed, name, salt, share])).digest()


def sum_signed(*, closed: bytes, total: bytes) -> bytes:
    return packed(["prirec opened sum", closed, total])
