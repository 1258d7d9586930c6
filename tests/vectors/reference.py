"""What the sharing layer must give, in plain Python integers and for reading only: slow, and written apart from it."""

import hashlib
import hmac
from fractions import Fraction
from math import isfinite

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM


class RefusedError(Exception):
    """The input is refused; by whose fault is a name of `Fault`, or None where our own caller is wrong."""

    name = "UsageError"  # of the error, where our own caller is wrong

    def __init__(self, fault: str | None = None) -> None:
        super().__init__(fault or "usage")
        self.fault = fault


def demand(holds: bool, fault: str | None = None) -> None:
    if not holds:
        raise RefusedError(fault)


# Fixed point


def encode(values: list[float], *, summands: int, bound: float, fraction_bits: int, ring_bits: int) -> list[int]:
    demand(ring_bits in (32, 64) and 1 <= fraction_bits <= 40)
    demand(summands >= 1 and isfinite(bound) and bound > 0)
    demand(summands * (Fraction(bound) * 2**fraction_bits + Fraction(1, 2)) <= 2 ** (ring_bits - 1) - 1)
    demand(all(isfinite(value) and abs(Fraction(value)) <= Fraction(bound) for value in values))
    return [round(Fraction(value) * 2**fraction_bits) % 2**ring_bits for value in values]


def decode(words: list[int], *, fraction_bits: int, ring_bits: int) -> list[float]:
    around_zero = [word - 2**ring_bits if word >= 2 ** (ring_bits - 1) else word for word in words]
    return [float(Fraction(number, 2**fraction_bits)) for number in around_zero]


# Additive sharing


def additive_split(secret: list[int], *, pads: list[list[int]], own: int, ring_bits: int) -> list[list[int]]:
    demand(len(pads) >= 1 and 0 <= own <= len(pads))
    demand(all(len(pad) == len(secret) for pad in pads))
    rest = [(word - sum(column)) % 2**ring_bits for word, *column in zip(secret, *pads, strict=True)]
    return [*pads[:own], rest, *pads[own:]]


def additive_combine(shares: list[list[int]], *, ring_bits: int) -> list[int]:
    demand(len(shares) >= 1)
    return [sum(column) % 2**ring_bits for column in zip(*shares, strict=True)]


# AES-256 in counter mode, block by block


def key_stream(key: bytes, *, counter: int, size: int) -> bytes:
    block_cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305 - single blocks are all that CTR needs
    blocks = -(-size // 16)
    counters = b"".join(((counter + block) % 2**128).to_bytes(16, "big") for block in range(blocks))
    return block_cipher.update(counters)[:size]


def short_key_stream(*, key: bytes, start: bytes, size: int) -> bytes:
    """AES-128, where the lower half of the block alone is counted: after 2^64 - 1 comes 0."""
    block_cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()  # noqa: S305
    first = int.from_bytes(start[8:], "big")
    counters = (start[:8] + ((first + at) % 2**64).to_bytes(8, "big") for at in range(-(-size // 16)))
    return b"".join(block_cipher.update(counter) for counter in counters)[:size]


def stretch(seed: bytes, *, count: int, ring_bits: int) -> list[int]:
    demand(len(seed) == 32 and count >= 0 and ring_bits in (32, 64))
    width = ring_bits // 8
    stream = key_stream(seed, counter=2, size=count * width)  # where AES-GCM begins under the nonce 0
    return [int.from_bytes(stream[at : at + width], "little") for at in range(0, len(stream), width)]


# Shamir over p

P = 2**31 - 1
LIMBS = 9


def field_elements(seed: bytes, *, count: int) -> list[int]:
    words = (word % 2**31 for word in stretch(seed, count=count + 100, ring_bits=32))
    return [word for word in words if word < P][:count]


def shamir_shares(limbs: list[int], *, threshold: int, points: list[int], seed: bytes) -> list[list[int]]:
    """Coefficient k of limb l is number 9 (k - 1) + l of the stream."""
    drawn = field_elements(seed, count=LIMBS * (threshold - 1))
    polynomials = [[limb, *drawn[at::LIMBS]] for at, limb in enumerate(limbs)]
    return [[sum(c * pow(x, k, P) for k, c in enumerate(poly)) % P for poly in polynomials] for x in points]


def check_points(points: list[int]) -> None:
    demand(len(points) >= 1 and len(set(points)) == len(points) and all(0 < x < P for x in points))


def shamir_split(secret: bytes, *, threshold: int, points: list[int], seed: bytes) -> list[list[int]]:
    check_points(points)
    demand(len(secret) == 32 and len(seed) == 32 and 1 <= threshold <= len(points))
    value = int.from_bytes(secret, "little")
    limbs = [value // 2 ** (30 * at) % 2**30 for at in range(LIMBS)]
    return shamir_shares(limbs, threshold=threshold, points=points, seed=seed)


def lagrange_at_zero(points: list[int], values: list[int]) -> int:
    total = 0
    for x, y in zip(points, values, strict=True):
        above, below = 1, 1
        for other in points:
            if other != x:
                above, below = above * other % P, below * (other - x) % P
        total += y * above * pow(below, -1, P)
    return total % P


def shamir_combine(points: list[int], shares: list[list[int]]) -> bytes:
    check_points(points)
    demand(len(shares) == len(points))
    demand(all(0 <= value < P for share in shares for value in share), "ABORTED")
    limbs = [lagrange_at_zero(points, [share[at] for share in shares]) for at in range(LIMBS)]
    demand(all(limb < 2**30 for limb in limbs) and limbs[-1] < 2**16, "ABORTED")
    return sum(limb * 2 ** (30 * at) for at, limb in enumerate(limbs)).to_bytes(32, "little")


# HKDF-SHA256 (RFC 5869), and the info of a derived key


def hkdf(secret: bytes, *, salt: bytes, info: bytes, size: int) -> bytes:
    key = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    stream, last, count = b"", b"", 0
    while len(stream) < size:
        count += 1
        last = hmac.new(key, last + info + bytes([count]), hashlib.sha256).digest()
        stream += last
    return stream[:size]


def shortest_twos_complement(number: int) -> bytes:
    size = 1
    while not -(2 ** (8 * size - 1)) <= number < 2 ** (8 * size - 1):
        size += 1
    return (number % 2 ** (8 * size)).to_bytes(size, "big")


def info_of(fields: list[tuple[str, bytes | str | int]]) -> bytes:
    spell = {"bytes": bytes, "text": str.encode, "number": shortest_twos_complement}
    tags = {"bytes": b"b", "text": b"s", "number": b"i"}
    info = b""
    for kind, field in fields:
        demand(kind in tags)
        content = spell[kind](field)
        info += tags[kind] + len(content).to_bytes(8, "big") + content
    return info


def derive(secret: bytes, *, fields: list[tuple[str, bytes | str | int]]) -> bytes:
    demand(len(secret) >= 16)
    return hkdf(secret, salt=b"", info=info_of(fields), size=32)


# X25519: the ladder of RFC 7748

Q = 2**255 - 19


def x25519(scalar: bytes, u: bytes) -> bytes:
    k = int.from_bytes(scalar, "little") % 2**255 // 8 * 8 | 2**254
    x1 = int.from_bytes(u, "little") % 2**255 % Q
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in reversed(range(255)):
        if k >> bit & 1:
            (x2, z2), (x3, z3) = ladder_step(x1, ahead=(x3, z3), behind=(x2, z2))[::-1]
        else:
            (x2, z2), (x3, z3) = ladder_step(x1, ahead=(x2, z2), behind=(x3, z3))
    return (x2 * pow(z2, Q - 2, Q) % Q).to_bytes(32, "little")


def ladder_step(x1: int, *, ahead: tuple[int, int], behind: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """`ahead` doubled, and the sum of both, whose difference is x1."""
    a, b = ahead[0] + ahead[1], ahead[0] - ahead[1]
    c, d = behind[0] + behind[1], behind[0] - behind[1]
    aa, bb, da, cb = a * a, b * b, d * a, c * b
    e = aa - bb
    return (aa * bb % Q, e * (aa + 121665 * e) % Q), ((da + cb) ** 2 % Q, x1 * (da - cb) ** 2 % Q)


def agreement_public(secret: bytes) -> bytes:
    demand(len(secret) == 32)
    return x25519(secret, (9).to_bytes(32, "little"))


def agree(secret: bytes, *, peer: bytes) -> bytes:
    demand(len(secret) == 32)
    demand(len(peer) == 32, "AUTH")
    shared = x25519(secret, peer)
    demand(shared != bytes(32), "AUTH")
    return shared


# HPKE, base mode, one message (RFC 9180): X25519, HKDF-SHA256, AES-128-GCM

KEM_SUITE, HPKE_SUITE = b"KEM\0\x20", b"HPKE\0\x20\0\1\0\1"


def extract(salt: bytes, label: bytes, secret: bytes, *, suite: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def expand(key: bytes, label: bytes, info: bytes, size: int, *, suite: bytes) -> bytes:
    """At most 32 bytes, for which HKDF needs one block."""
    labelled = size.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(key, labelled + b"\1", "sha256")[:size]


def key_and_nonce(agreed: bytes, *, enclosed: bytes, public: bytes, info: bytes) -> tuple[bytes, bytes]:
    shared = expand(
        extract(b"", b"eae_prk", agreed, suite=KEM_SUITE), b"shared_secret", enclosed + public, 32, suite=KEM_SUITE
    )
    hashes = [
        extract(b"", label, text, suite=HPKE_SUITE) for label, text in ((b"psk_id_hash", b""), (b"info_hash", info))
    ]
    context, secret = b"\0" + b"".join(hashes), extract(shared, b"secret", b"", suite=HPKE_SUITE)
    return (
        expand(secret, b"key", context, 16, suite=HPKE_SUITE),
        expand(secret, b"base_nonce", context, 12, suite=HPKE_SUITE),
    )


def seal_box(content: bytes, *, ephemeral: bytes, public: bytes, info: bytes, aad: bytes = b"") -> bytes:
    enclosed = agreement_public(ephemeral)
    key, nonce = key_and_nonce(agree(ephemeral, peer=public), enclosed=enclosed, public=public, info=info)
    return enclosed + AESGCM(key).encrypt(nonce, content, aad)


def open_box(secret: bytes, *, box: bytes, fields: list[tuple[str, bytes | str | int]]) -> bytes:
    public, enclosed, info = agreement_public(secret), box[:32], info_of(fields)
    demand(len(box) >= 32 + 16, "AUTH")
    key, nonce = key_and_nonce(agree(secret, peer=enclosed), enclosed=enclosed, public=public, info=info)
    try:
        return AESGCM(key).decrypt(nonce, box[32:], b"")
    except InvalidTag:
        raise RefusedError("AUTH") from None


# Ed25519 (RFC 8032), in affine coordinates

ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, Q) % Q
ROOT = pow(2, (Q - 1) // 4, Q)  # of -1
Point = tuple[int, int]


def plus(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    bend = D * x1 * x2 * y1 * y2 % Q
    x = (x1 * y2 + y1 * x2) * pow(1 + bend, -1, Q) % Q
    return x, (y1 * y2 + x1 * x2) * pow(1 - bend, -1, Q) % Q


def times(number: int, point: Point) -> Point:
    result = (0, 1)
    for bit in bin(number)[2:]:
        result = plus(result, result)
        result = plus(result, point) if bit == "1" else result
    return result


def point_at(y: int, *, sign: int) -> Point:
    square = (y * y - 1) * pow(D * y * y + 1, -1, Q) % Q
    x = pow(square, (Q + 3) // 8, Q)
    x = x if x * x % Q == square else x * ROOT % Q
    demand(x * x % Q == square, "AUTH")
    return (-x % Q if x % 2 != sign else x), y % Q


BASE = point_at(4 * pow(5, -1, Q) % Q, sign=0)


def packed(point: Point) -> bytes:
    return (point[1] + (point[0] % 2) * 2**255).to_bytes(32, "little")


def unpacked(text: bytes) -> Point:
    number = int.from_bytes(text, "little")
    return point_at(number % 2**255, sign=number >> 255)


def hashed(*parts: bytes) -> int:
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % ORDER


def signing_scalar(secret: bytes) -> int:
    demand(len(secret) == 32)
    return int.from_bytes(hashlib.sha512(secret).digest()[:32], "little") % 2**254 // 8 * 8 + 2**254


def signing_public(secret: bytes) -> bytes:
    return packed(times(signing_scalar(secret), BASE))


def sign(secret: bytes, *, message: bytes) -> bytes:
    a, public = signing_scalar(secret), signing_public(secret)
    r = hashed(hashlib.sha512(secret).digest()[32:], message)
    R = packed(times(r, BASE))
    return R + ((r + hashed(R, public, message) * a) % ORDER).to_bytes(32, "little")


def verify(public: bytes, *, signature: bytes, message: bytes) -> None:
    """The equation of RFC 8032 without its cofactor; a key of low order is refused as well."""
    demand(len(public) == 32 and len(signature) == 64, "AUTH")
    A, s = unpacked(public), int.from_bytes(signature[32:], "little")
    demand(times(8, A) != (0, 1) and s < ORDER, "AUTH")
    right = plus(unpacked(signature[:32]), times(hashed(signature[:32], public, message), A))
    demand(times(s, BASE) == right, "AUTH")
