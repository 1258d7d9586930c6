"""What a device works out of a charter, a log and a window by itself: wire/campaign.py, privacy/plan.py and
device/sync.py, with fractions and 60 digits."""

from fractions import Fraction
from hashlib import sha256
from math import ceil, floor, log2
from typing import Any

from vectors.reference import RefusedError, demand, verify
from vectors.reference_documents import fits_cosignature
from vectors.reference_ledger import GRAINS, exact_delta
from vectors.reference_messages import packed, unpacked

IN_FORCE = {"catalogue", "start", "charter", "edition", "scales", "model", "publication", "figures", "window"}
OF_A_CAMPAIGN = ("edition", "scales", "model", "window")


class UnplannedError(RefusedError):
    """No noise can be planned for it."""

    name = "UsageError"


def planned_grains(epsilon: float, delta: float) -> int:
    """The most grains within a budget, with a margin of 1e-9 of delta."""
    low, high = 0, 2**62
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if exact_delta(middle, epsilon) <= delta * (1 - 1e-9) else (low, middle)
    return low


def release(
    *, epsilon: float, delta: float, parts: list[float], which: int, times: int, sensitivity: float, entries: int
) -> list[int]:
    """Fraction bits, the norm in whole numbers, and the variance that each operator adds."""
    shares = [Fraction(part / sum(parts)) for part in parts]
    bits = max(8, ceil(log2(entries) / 2 - log2(2 * 2.0**-9) - log2(sensitivity)))
    each = floor(shares[which] / sum(shares) * planned_grains(epsilon, delta) / times)
    if each < 2**10:
        raise UnplannedError
    units = Fraction(sensitivity) * 2**bits
    return [bits, floor(units), ceil(units**2 * Fraction(GRAINS, each))]


def window_bound(*, fields: list[Any]) -> bytes:
    """What reports are bound to: the hash of a window without its times."""
    return sha256(packed(["prirec window", *fields[:-2], 0, 0])).digest()


def extended(*, before: list[Any], now: list[Any]) -> None:
    """A window of the same sum may close later, and nothing else of it changes."""
    if before[1:3] == now[1:3]:
        demand(before[:-1] == now[:-1] and before[-1] <= now[-1], "EQUIVOCATION")


def co_signed(*, data: bytes, helper: bytes, deployment: bytes) -> list[Any]:
    """Length, last hash and time of a head that the helper has signed."""
    found = unpacked(data)
    fits_cosignature(found)
    (_, of, length, last, time), signature = found
    demand(of == deployment, "EQUIVOCATION")
    verify(helper, signature=signature, message=packed(found[0]))
    return [length, last, time]


def rotated(*, recommender: bytes, helper: bytes, deployment: bytes, rotations: list[bytes]) -> list[bytes]:
    """Whose keys are in force after these rotations: the recommender's and the helper's."""
    now, had = {"recommender": recommender, "helper": helper}, {recommender, helper}
    for number, data in enumerate(rotations):
        change, by_old, by_new, by_peer = unpacked(data)[1:]
        _, of, at, role, old, new, _ = change
        demand((of, at, old) == (deployment, number, now[role]) and number < 1000, "EQUIVOCATION")
        demand(new not in had, "EQUIVOCATION")
        peer = now["helper" if role == "recommender" else "recommender"]
        for key, signature in ((old, by_old), (new, by_new), (peer, by_peer))[: 3 if peer else 2]:
            verify(key, signature=signature, message=packed(change))
        demand(bool(peer) or not by_peer, "EQUIVOCATION")
        now[role] = new
        had.add(new)
    return [now["recommender"], now["helper"]]


def in_force(*, entries: list[list[Any]]) -> list[Any]:
    """The documents in force after these entries of a log, by subject in the order of the alphabet."""
    now: dict[str, bytes] = {}
    begun: set[bytes] = set()
    for subject, document in entries:
        if subject == "charter":
            demand(document not in begun, "EQUIVOCATION")
            begun.add(document)
            now = {name: held for name, held in now.items() if name not in OF_A_CAMPAIGN}
        if subject == "edition":
            demand("edition" not in now and "charter" in now, "EQUIVOCATION")
        if subject == "scales":
            demand("scales" not in now and "edition" in now, "EQUIVOCATION")
        if subject == "publication":
            now.pop("start", None)
            now.pop("figures", None)
        if subject == "figures":
            demand("figures" not in now and "publication" in now, "EQUIVOCATION")
        if subject in IN_FORCE:
            now[subject] = document
    return [[subject, now[subject]] for subject in sorted(now)]
