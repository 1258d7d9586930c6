"""Vectors of fixed point, additive sharing and masks."""

from collections.abc import Iterator

from vectors import reference as ref
from vectors.entry import SEED, Vector, plain, vector

FIXED = {"summands": 20, "bound": 50.0, "fraction_bits": 24, "ring_bits": 64}
SMALL = {"summands": 20, "bound": 50.0, "fraction_bits": 8, "ring_bits": 32}


def fixed_point() -> Iterator[Vector]:
    yield vector("halves go to even", "encode", values=[2.0**-25, 3 * 2.0**-25, -(2.0**-25), -3 * 2.0**-25], **FIXED)
    yield vector("negatives stand in the upper half", "encode", values=[-1.0, -50.0, 50.0, 0.1, -0.0], **FIXED)
    yield vector("a ring of 32 bits", "encode", values=[-1.0, 0.001, 49.999, -49.999], **SMALL)
    tight = {"summands": 1, "bound": float(2**38), "fraction_bits": 24, "ring_bits": 64}
    yield vector("a bound that just fits", "encode", values=[float(2**38), -float(2**38)], **tight)
    words = [0, 1, 2**63 - 1, 2**63, 2**64 - 1]
    yield vector("both ends of the ring read back", "decode", words=words, fraction_bits=24, ring_bits=64)
    words = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
    yield vector("both ends of the small ring read back", "decode", words=words, fraction_bits=8, ring_bits=32)
    for claim, value in {"not a number": float("nan"), "infinite": float("-inf"), "over the bound": 50.000001}.items():
        yield vector(f"a value is {claim}", "encode", values=[1.0, value], **FIXED)
    yield vector("the sum could wrap", "encode", values=[], **(tight | {"summands": 2}))
    yield vector("the sum could wrap by a rounding", "encode", values=[], **(tight | {"bound": 2.0**39}))
    yield vector("a ring of 16 bits", "encode", values=[1.0], **(FIXED | {"ring_bits": 16}))
    yield vector("no fraction bits", "encode", values=[1.0], **(FIXED | {"fraction_bits": 0}))
    yield vector("no summand", "encode", values=[1.0], **(FIXED | {"summands": 0}))
    yield vector("a bound of zero", "encode", values=[0.0], **(FIXED | {"bound": 0.0}))


def additive() -> Iterator[Vector]:
    top = 2**64 - 1
    secret, pads = [7, 2**63, top], [[1, top, 0], [2**63, 2**63, top]]
    for own in range(3):
        yield vector(f"owner {own} keeps the rest", "additive_split", secret=secret, pads=pads, own=own, ring_bits=64)
    yield vector("a ring of 32 bits", "additive_split", secret=[5], pads=[[2**32 - 1]], own=1, ring_bits=32)
    yield vector("stretched pads", "additive_split", secret=secret, pads=stretched_pads(), own=2, ring_bits=64)
    yield vector("a sum that wraps", "additive_combine", shares=[[top, 1], [1, top], [5, 6]], ring_bits=64)
    yield vector("partial sums in 32 bits", "additive_combine", shares=[[2**31], [2**31], [3]], ring_bits=32)
    yield vector("a single party", "additive_split", secret=secret, pads=[], own=0, ring_bits=64)
    yield vector("an owner beyond the parties", "additive_split", secret=secret, pads=pads, own=3, ring_bits=64)
    yield vector("an owner before the first", "additive_split", secret=secret, pads=pads, own=-1, ring_bits=64)
    yield vector("pads of another length", "additive_split", secret=[1, 2], pads=pads, own=0, ring_bits=64)
    yield vector("no shares", "additive_combine", shares=[], ring_bits=64)


def stretched_pads() -> list[list[int]]:
    words = ref.stretch(SEED, count=12, ring_bits=64)
    return [words[at : at + 3] for at in range(0, 12, 3)]


def masks() -> Iterator[Vector]:
    check_counter_mode()
    for claim, start in {
        "a counter": bytes(16),
        "a counter that wraps": bytes(range(8)) + b"\xff" * 7 + b"\xfe",
    }.items():
        flags = ("other implementations differ",) if "wraps" in claim else ()
        yield vector(claim, "key_stream", flags=flags, key=SEED[:16], start=start, size=70)
    zero_block = bytes.fromhex("cea7403d4d606b6e074ec5d3baf39d18")  # AES-256-GCM of zeros under zeros: test case 14
    first = [int.from_bytes(zero_block[at : at + 8], "little") for at in (0, 8)]
    entry = vector(
        "AES-256-GCM of a zero block, as printed by McGrew and Viega", "stretch", seed=bytes(32), count=2, ring_bits=64
    )
    if entry["output"] != plain(first):
        raise ValueError("the reference's AES is not AES-256")
    yield entry
    yield vector("words of 64 bits", "stretch", seed=SEED, count=20, ring_bits=64)
    yield vector("words of 32 bits, an odd number", "stretch", seed=SEED, count=7, ring_bits=32)
    yield vector("the last bit of the seed counts", "stretch", seed=SEED[:31] + b"\x82", count=4, ring_bits=64)
    yield vector("no words", "stretch", seed=SEED, count=0, ring_bits=64)
    yield vector("a seed of 31 bytes", "stretch", seed=SEED[:31], count=1, ring_bits=64)
    yield vector("a seed of 33 bytes", "stretch", seed=SEED + b"\0", count=1, ring_bits=64)
    yield vector("fewer than no words", "stretch", seed=SEED, count=-1, ring_bits=64)
    yield vector("words of 16 bits", "stretch", seed=SEED, count=1, ring_bits=16)


def check_counter_mode() -> None:
    """NIST SP 800-38A, F.5.5: the four output blocks of CTR-AES256."""
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
    printed = (
        "0bdf7df1591716335e9a8b15c860c502 5a6e699d536119065433863c8f657b94"
        "1bc12c9c01610d5d0d8bd6a3378eca62 2956e1c8693536b1bee99c73a31576b6"
    )
    if ref.key_stream(key, counter=counter, size=64) != bytes.fromhex(printed):
        raise ValueError("the reference's counter mode is not that of SP 800-38A")
