"""Reports with a proof of their norm (PINE): bytes, and CPU of the device and of each operator, at three lengths,
against adding plain vectors and against a device's work in double masks.

CPU is counted in butterflies over Field64 of one Fourier transform of 4,096 points, measured in the same run, so that a
figure can be held against another machine's. The prototype that these are compared with had 8.4 ns a butterfly. Where
many columns are transformed together, vector instructions make a butterfly cheaper: that ratio is shown too. The
fastest of some goes counts, in CPU time. Signatures and boxes are not in it, but where it is held against double masks:
there the whole report counts, and all that a device does in a sum of 100. One X25519 agreement is shown beside.
"""

import json
import os
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import secure
from prirec.proofs import pine
from prirec.proofs.field import roots, sums, to_values
from prirec.proofs.parameters import Parameters
from prirec.protocols.codec import encode
from prirec.protocols.messages import Round, Terms
from prirec.protocols.two_operators import Device, JointTask, OperatorKeys
from prirec.sharing.keys import AgreementKey, SigningKey
from prirec.types import SignedArray
from recorded import member_work, record

LENGTHS = {445: "V at Koubei's shape", 16_621: "Yelp's places", 118_598: "Koubei's places"}
NORM_BOUND = 2**12  # twelve fraction bits
BUTTERFLY = 8.4e-9  # of the prototype, in seconds
MASKED = 100  # devices of the sum under double masks
PROTOTYPE = {  # bytes of upload, seconds of the device, seconds of each operator
    445: (21_000, 2.3e-3, 1.0e-3),
    16_621: (157_000, 28e-3, 14e-3),
    118_598: (987_000, 183e-3, 94e-3),
}


def fastest(task: Callable[[], object], *, goes: int = 1, turns: int = 15) -> float:
    """CPU seconds of one go; the first turn is to warm up."""
    found = []
    for _ in range(turns + 1):
        began = process_time()
        for _ in range(goes):
            task()
        found.append((process_time() - began) / goes)
    return min(found[1:])


def butterfly(*, points: int, columns: int) -> float:
    table = np.arange(points * columns, dtype=np.uint64).reshape(points, columns)
    whole = fastest(lambda: to_values(table, roots(points)), goes=20)
    return whole / (columns * points // 2 * (points.bit_length() - 1))


def at_length(length: int) -> dict[str, Any]:
    p = Parameters.shortest(dimension=length, norm_bound=NORM_BOUND)
    direction = np.random.default_rng(length).normal(size=length)
    vector = (NORM_BOUND * direction / np.linalg.norm(direction)).astype(np.int64)
    nonce, key, randomness = os.urandom(pine.NONCE), os.urandom(32), os.urandom(pine.RANDOMNESS)
    report = pine.shard(p, vector, nonce, randomness)
    assert report is not None

    def prepared(operator: int) -> tuple[pine.State, bytes]:
        share = report.leader if operator == pine.LEADER else report.helper
        return pine.prepare(p, key, operator, nonce=nonce, public=report.public, share=share)

    states, shares = zip(*(prepared(operator) for operator in (pine.LEADER, pine.HELPER)), strict=True)
    message = pine.combine(p, shares)
    entries = [pine.finish(state, message) for state in states]
    assert (pine.opened(*entries) == vector).all()
    goes = max(1, 20_000 // length)
    return {
        "chunks": [p.chunk, p.norm_chunk],
        "upload": sum(map(len, report)),
        "between operators": len(shares[0]) + len(message),
        "device": fastest(lambda: pine.shard(p, vector, nonce, randomness), goes=goes),
        "leader": fastest(lambda: prepared(pine.LEADER), goes=goes),
        "helper": fastest(lambda: prepared(pine.HELPER), goes=goes),
        "decision": fastest(lambda: pine.combine(p, shares), goes=goes),
        "plain sum": fastest(lambda: sums(*entries), goes=10 * goes),
        "whole report": whole_report(vector),
        "double masks": masked_device(length),
    }


def whole_report(vector: SignedArray) -> float:
    """CPU seconds of a device from its vector to the bytes that it sends: proof, boxes and signature."""
    names = [SigningKey(bytes([at] * 32)).public for at in (1, 2)]
    keys = [AgreementKey(bytes([at] * 32)).public for at in (3, 4)]
    terms = Terms("two_operators", len(vector), ring_bits=64, fraction_bits=12, bound=NORM_BOUND, floor=MASKED)
    operators = (OperatorKeys(name, key) for name, key in zip(names, keys, strict=True))
    task = JointTask(Round(bytes(16), "interaction", 1), terms, bytes(32), *operators, bytes(32), people=MASKED)
    identity, value = SigningKey(bytes(32)), vector.view(np.uint64)

    def report() -> bytes:
        return encode(Device(task, identity=identity, value=value, draw=os.urandom).report()[-1].message)

    return fastest(report)


def masked_device(length: int) -> float:
    """CPU seconds of a device in all of a sum under double masks."""
    recording = record(secure.terms(length), size=MASKED)
    return min(secure.cold(member_work, recording).total() for _ in range(5))


def measure() -> dict[str, Any]:
    own, other = AgreementKey(bytes(range(32))), AgreementKey(bytes(range(1, 33))).public
    return {
        "butterfly": butterfly(points=4096, columns=1),
        "butterfly in rows": butterfly(points=256, columns=466),
        "agreement": fastest(lambda: own.agree(other), goes=100),
        "lengths": {str(length): at_length(length) for length in LENGTHS},
    }


def lines(found: dict[str, Any]) -> list[str]:
    unit, agreement = found["butterfly"], found["agreement"] / found["butterfly"]
    shown = [
        "## Reports with a proof of their norm (PINE, two proofs, 100 wraparound checks, 12 fraction bits)",
        "",
        "CPU in butterflies of Field64; in brackets × the prototype's. An X25519 agreement takes as long as",
        f"{agreement:,.0f} of them; one among many columns takes {found['butterfly in rows'] / unit:.2f} of one alone.",
        "Reports a second are those that one core of an operator verifies where a butterfly takes 8.4 ns, as in the",
        "prototype. The last column is a device's whole report, with boxes and signature, against all that a device",
        f"does in a sum of {MASKED} under double masks.",
        "",
        "| entries | upload, bytes | between operators, bytes | device, thousands | each operator, thousands "
        "| operator, × adding a plain vector | reports a second and core | device, × double masks |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for length, words in LENGTHS.items():
        row = found["lengths"][str(length)]
        octets, device, operator = PROTOTYPE[length]
        work = max(row["leader"], row["helper"]) + row["decision"]
        ratios = [row["upload"] / octets, row["device"] / unit * BUTTERFLY / device, work / unit * BUTTERFLY / operator]
        shown.append(
            f"| {length:,} ({words}) | {row['upload']:,} ({ratios[0]:.2f}) | {row['between operators']:,} "
            f"| {row['device'] / unit / 1000:,.0f} ({ratios[1]:.2f}) | {work / unit / 1000:,.0f} ({ratios[2]:.2f}) "
            f"| {work / row['plain sum']:,.0f} | {unit / work / BUTTERFLY:,.0f} "
            f"| {row['whole report'] / row['double masks']:.2f} |"
        )
    return shown


if __name__ == "__main__":
    measured = measure()
    print(json.dumps(measured, indent=1), *lines(measured), sep="\n")
