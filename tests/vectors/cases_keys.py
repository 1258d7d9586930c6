"""Vectors of keys: derivation, agreement and signatures, with what the standards print."""

from collections.abc import Iterator

from vectors import reference as ref
from vectors.entry import SECRET, SEED, Vector, vector

READ = bytes.fromhex

# RFC 7748, 5.2: scalar, u, result
LADDER = [
    (
        "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
        "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
        "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
    ),
    (
        "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
        "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
        "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
    ),
]
# RFC 7748, 6.1: secret, public
ALICE = (
    "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
    "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
)
BOB = (
    "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
    "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
)
SHARED = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
# RFC 8032, 7.1: secret, public, message, signature
SIGNED = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555"
        "fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da0"
        "85ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac1"
        "8ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


def derivation() -> Iterator[Vector]:
    check_hkdf()
    printed = bytes.fromhex("8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d")
    yield vector("RFC 5869 A.3, its first 32 bytes", "derive", printed=printed, secret=b"\x0b" * 22, fields=[])
    for claim, fields in {
        "text": [("text", "ab")],
        "the same bytes": [("bytes", b"ab")],
        "the same cut in two": [("text", "a"), ("text", "b")],
        "an empty field": [("text", "")],
        "letters beyond ASCII": [("text", "市")],
        "everything": [("text", "prirec"), ("number", 1), ("bytes", SEED), ("number", -1), ("number", 2**64)],
        **{f"the number {n}": [("number", n)] for n in (0, 127, 128, -128, -129, 2**63)},
    }.items():
        yield vector(claim, "derive", secret=SECRET, fields=fields)
    yield vector("a secret of 15 bytes", "derive", secret=SECRET[:15], fields=[("text", "ab")])
    yield vector("a field that is a fraction", "derive", secret=SECRET, fields=[("fraction", 0.5)])


def check_hkdf() -> None:
    """RFC 5869, A.1: with salt and info, beyond one block."""
    printed = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    info = bytes(range(0xF0, 0xFA))
    if ref.hkdf(b"\x0b" * 22, salt=bytes(range(13)), info=info, size=42) != bytes.fromhex(printed):
        raise ValueError("the reference's HKDF is not that of RFC 5869")


def agreement() -> Iterator[Vector]:
    for at, (scalar, u, result) in enumerate(LADDER, start=1):
        yield vector(f"RFC 7748 5.2, {at}", "agree", printed=READ(result), secret=READ(scalar), peer=READ(u))
    for name, own, other in (("Alice", ALICE, BOB), ("Bob", BOB, ALICE)):
        secret, peer = READ(own[0]), READ(other[1])
        yield vector(f"RFC 7748 6.1, public key of {name}", "agreement_public", printed=READ(own[1]), secret=secret)
        yield vector(f"RFC 7748 6.1, shared by {name}", "agree", printed=READ(SHARED), secret=secret, peer=peer)
    for claim, u in low_order_on_the_ladder().items():
        yield vector(f"a peer's key of low order: {claim}", "agree", flags=("low order",), secret=SECRET, peer=u)
    yield vector("a peer's key of 31 bytes", "agree", secret=SECRET, peer=READ(BOB[1])[:31])
    yield vector("a peer's key of 33 bytes", "agree", secret=SECRET, peer=READ(BOB[1]) + b"\0")
    yield vector("a secret key of 31 bytes", "agreement_public", secret=SECRET[:31])


def low_order_on_the_ladder() -> dict[str, bytes]:
    order_eight = (1 + low_order_y()) * pow(1 - low_order_y(), -1, ref.Q) % ref.Q  # u = (1 + y) / (1 - y)
    numbers = {"0": 0, "1": 1, "-1": ref.Q - 1, "order 8": order_eight, "0 spelt p": ref.Q, "0 and top bit": 2**255}
    return {claim: number.to_bytes(32, "little") for claim, number in numbers.items()}


def low_order_y() -> int:
    """y of a point of order 8: the least point on the curve, times the prime order, that has that order."""
    for y in range(2, 100):
        try:
            point = ref.times(ref.ORDER, ref.point_at(y, sign=0))
        except ref.RefusedError:
            continue
        if ref.times(4, point) != (0, 1):
            return point[1]
    raise ValueError("no point of order 8 was found")


def signatures() -> Iterator[Vector]:
    for at, row in enumerate(SIGNED, start=1):
        secret, public, message, signature = map(READ, row)
        yield vector(f"RFC 8032 7.1, public key {at}", "signing_public", printed=public, secret=secret)
        yield vector(f"RFC 8032 7.1, signature {at}", "sign", printed=signature, secret=secret, message=message)
        yield vector(f"RFC 8032 7.1, check {at}", "verify", public=public, signature=signature, message=message)
    yield vector("a secret key of 33 bytes", "signing_public", secret=SECRET + b"\0")
    yield from forgeries()


def forgeries() -> Iterator[Vector]:
    _, public, message, signature = map(READ, SIGNED[2])
    good = {"public": public, "signature": signature, "message": message}
    beyond = int.from_bytes(signature[32:], "little") + ref.ORDER
    for claim, wrong in {
        "another message": {"message": message + b"\0"},
        "another signer": {"public": READ(SIGNED[0][1])},
        "a bit of R flipped": {"signature": bytes([signature[0] ^ 1]) + signature[1:]},
        "a bit of s flipped": {"signature": signature[:32] + bytes([signature[32] ^ 1]) + signature[33:]},
        "s spelt beyond the order": {"signature": signature[:32] + beyond.to_bytes(32, "little")},
        "a signature of 63 bytes": {"signature": signature[:63]},
        "a public key of 31 bytes": {"public": public[:31]},
        "a public key that is no point": {"public": (2).to_bytes(32, "little")},
    }.items():
        yield vector(claim, "verify", **(good | wrong))
    yield from signatures_without_a_secret()


def signatures_without_a_secret() -> Iterator[Vector]:
    """Under a public key of low order, R = B and s = 1 satisfy the equation for one message in eight, or for all."""
    keys = {"1": 1, "1 spelt p + 1": ref.Q + 1, "1 and sign": 1 + 2**255, "-1": ref.Q - 1, "0": 0, "0 spelt p": ref.Q}
    keys |= {"order 8": low_order_y(), "-order 8": ref.Q - low_order_y()}
    for claim, number in keys.items():
        public = number.to_bytes(32, "little")
        yield vector(
            f"a public key of low order: y = {claim}", "verify", flags=("low order", "other implementations differ"),
            public=public, **signature_under(public),
        )  # fmt: skip


def signature_under(public: bytes) -> dict[str, bytes]:
    """A message that nobody signed, with a signature that the equation accepts: 8 divides k, and the key drops out."""
    R = ref.packed(ref.BASE)
    for number in range(1000):
        message = number.to_bytes(2, "big")
        if ref.hashed(R, public, message) % 8 == 0:
            return {"signature": R + (1).to_bytes(32, "little"), "message": message}
    raise ValueError("no message was found")
