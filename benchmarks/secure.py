"""The secure sum: against Flower's in the same run, and under load.

Against Flower (SecAgg+, benchmarks/flower_peer.py, in `.venv-flower`), 100 devices, a vector of 445 values, the same
threshold. The two take turns, and the fastest of some goes counts, in CPU time: a long task shares the machine with
more company than a short one. On both sides everything is imported and compiled before.

- mask from a seed: pseudo_rand_gen and keys.stretch. Theirs has 32 bits of entropy and 32-bit words, ours 256 and 64.
- mask from an agreement: HKDF and the same; ours binds the key to the whole statement of the round.
- shares: create_shares of 32 bytes and shamir.split, from the secret to all shares.
- one client: theirs the four stages, called one after another as its mod does, without messages, state and checks
  around them; ours the member on a complete graph through all its messages, from bytes to bytes, with all signatures.

Under load: 1,000 devices with 1,335 values each, a tenth lost after their boxes, default terms. The collector is driven
through a recorded round by itself, so that its CPU is its own: decoding, checking, opening and encoding, no network.
"""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from prirec.protocols import mask_graph, secure_sum
from prirec.protocols.messages import Terms
from prirec.protocols.roster import RosterView
from prirec.sharing import secret_sharing
from prirec.sharing.keys import stretch
from recorded import Recording, collector_work, forget_plans, member_work, met, record

HERE = Path(__file__).parent
DEVICES, LENGTH = 100, 445
MANY = 100  # goes of what is over too soon for the clock
TURNS = {"mask from a seed": 20, "mask from an agreement": 20, "shares": 10, "client": 5}
WORDS = {
    "mask from a seed": f"mask of {LENGTH} values, from a seed",
    "mask from an agreement": f"mask of {LENGTH} values, from an agreement",
    "shares": f"shares of 32 bytes for {DEVICES} devices",
    "client": f"one client's whole work, {DEVICES} devices",
}
# what a device hears, and what it answers
EXCHANGES = {
    "invitation": "keys",
    "roster": "boxes",
    "delivery": "masked",
    "survivors": "agreement",
    "agreements": "reveal",
}


def terms(length: int, **others: int) -> Terms:
    return Terms("double", length, ring_bits=64, fraction_bits=24, bound=2**30, **others)


def seconds(task: Callable[[], object], goes: int = 1) -> float:
    began = process_time()
    for _ in range(goes):
        task()
    return (process_time() - began) / goes


def our_tasks(round_of_100: Recording, view: RosterView) -> dict[str, Callable[[], float]]:
    seed, points, threshold = bytes(range(32)), np.arange(1, DEVICES + 1), view.graph.threshold
    pad = partial(secure_sum.pairwise_pad, seed, view, participants=bytes(13), low=bytes(32), high=bytes(32))
    split = partial(secret_sharing.shamir_split, seed, threshold=threshold, points=points, seed=seed)
    return {
        "mask from a seed": lambda: seconds(lambda: stretch(seed, LENGTH), MANY),
        "mask from an agreement": lambda: seconds(pad, MANY),
        "shares": lambda: seconds(split, MANY),
        "client": lambda: member_work(round_of_100).total(),
    }


def against_flower() -> dict[str, dict[str, float]]:
    """CPU seconds of each task on both sides; empty where `.venv-flower` does not exist."""
    python = HERE.parent / ".venv-flower" / "bin" / "python"
    if not python.exists():
        return {}
    recording = record(terms(LENGTH, corrupt=320), size=DEVICES)  # so many corrupt that only a complete graph will do
    meeting = met(recording)
    assert meeting.graph.is_complete
    ours = our_tasks(recording, meeting)
    sizes = [str(size) for size in (DEVICES, meeting.graph.threshold, LENGTH)]
    command = [python, HERE / "flower_peer.py", *sizes]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as peer:
        return {name: alternate(peer, name, ours[name]) for name in TURNS}


def alternate(peer: "subprocess.Popen[str]", name: str, ours: Callable[[], float]) -> dict[str, float]:
    assert peer.stdin is not None
    assert peer.stdout is not None
    times: dict[str, list[float]] = {"flower": [], "prirec": []}
    for _ in range(TURNS[name] + 1):
        print(name, file=peer.stdin, flush=True)
        times["flower"].append(float(peer.stdout.readline()))
        times["prirec"].append(ours())
    return {side: min(found[1:]) for side, found in times.items()}  # the first go was to warm up


def under_load(*, size: int, length: int, repeats: int = 3) -> dict[str, Any]:
    chosen, lost = terms(length), size // 10
    recording = record(chosen, size=size, lost=lost)
    graph = mask_graph.plan(size, corrupt=chosen.corrupt / 1000, lost=chosen.lost / 1000)
    server = min((cold(collector_work, recording) for _ in range(repeats)), key=Counter.total)
    device = min((cold(member_work, recording) for _ in range(repeats)), key=Counter.total)
    octets, messages = recording.traffic.octets, recording.traffic.messages
    return {
        "devices": size,
        "length": length,
        "lost": lost,
        "neighbours": graph.degree,
        "threshold": graph.threshold,
        "server seconds": dict(server),
        "device seconds": dict(device),
        "bytes a message": {name: octets[name] / messages[name] for name in octets},
        "expansion": octets["masked"] / (messages["masked"] * length * 8),
    }


def cold(work: Callable[[Recording], Counter[str]], recording: Recording) -> Counter[str]:
    forget_plans()
    return work(recording)


def measure(*, size: int = 1000) -> dict[str, Any]:
    return {"flower": against_flower(), "load": under_load(size=size, length=1335)}


def flower_lines(found: dict[str, dict[str, float]]) -> list[str]:
    if not found:
        return ["Not compared with Flower: `.venv-flower` is not there."]
    lines = ["| | × Flower's secure aggregation |", "|---|---|"]
    ratios = {name: row["flower"] / row["prirec"] for name, row in found.items()}
    return lines + [f"| {WORDS[name]} | {ratio:,.{1 if ratio < 100 else 0}f} |" for name, ratio in ratios.items()]


def load_lines(found: dict[str, Any]) -> list[str]:
    server, device, sizes = found["server seconds"], found["device seconds"], found["bytes a message"]
    took, milliseconds = sum(server.values()), 1000 * sum(device.values())
    lines = [
        f"A round of {found['devices']:,} devices × {found['length']:,} values, {found['lost']} lost after boxes,",
        f"{found['neighbours']} neighbours each, threshold {found['threshold']}: the server's CPU is {took:.2f} s,",
        f"a device's {milliseconds:.0f} ms; a masked vector is {found['expansion']:.3f} × as long as a plain one.",
        "",
        "| a device receives, sends | CPU of the device, ms | bytes down | bytes up |",
        "|---|---|---|---|",
    ]
    for heard, answer in EXCHANGES.items():
        spent = 1000 * (device[heard] + (device["key pairs"] if heard == "invitation" else 0))
        lines.append(f"| {heard}, {answer} | {spent:.1f} | {sizes[heard]:,.0f} | {sizes[answer]:,.0f} |")
    lines += ["", "| the server receives, or does | CPU of the server, ms |", "|---|---|"]
    return lines + [f"| {name} | {1000 * spent:.0f} |" for name, spent in server.items()]


def lines(found: dict[str, Any]) -> list[str]:
    return ["## Secure sum", "", *flower_lines(found["flower"]), "", *load_lines(found["load"])]


if __name__ == "__main__":
    measured = measure(size=100 if "--quick" in sys.argv else 1000)
    print(json.dumps(measured, indent=1), *lines(measured), sep="\n")
