"""What noise by two operators costs in AUC against noise by devices, paired over ten splits, on real data.

Every seed is a split of its own, with the same records for both. Where devices are lost, their share of the noise is
lost with them; two operators add all of theirs whoever comes.
"""

import sys
from functools import partial
from typing import Any

import numpy as np

from cities import real_data
from prirec_experiments.cities import CITIES as KNOWN
from private import auc_of, paired

CITIES = ("trivago", "tokyo", "new york", "yelp")  # the quick ones first
LOST = (0.0, 0.1)
SPLITS = 10
NOISE_BY = {"devices": 1, "operators": 2}  # operators of the deployment


def one_city(name: str, folder: Any) -> dict[str, Any]:
    """AUC of every split, by who adds the noise, for each share of devices that is lost."""
    auc = partial(auc_of, KNOWN[name], KNOWN[name].open(folder))
    found: dict[str, Any] = {f"{lost:g}": {who: [] for who in NOISE_BY} for lost in LOST}
    for seed in range(SPLITS):
        for lost in LOST:
            for who, operators in NOISE_BY.items():
                one = auc(seed, preset="private", participation__dropout=lost, sums__operators=operators)
                found[f"{lost:g}"][who].append(one)
                print(f"{name}, split {seed}, {lost:.0%} lost, noise by {who}: {one:.4f}", file=sys.stderr, flush=True)
    return found


def measure() -> dict[str, Any]:
    folder = real_data()
    return {} if folder is None else {name: one_city(name, folder) for name in CITIES}


def lines(found: dict[str, Any]) -> list[str]:
    shown = ["## Noise by two operators against noise by devices: AUC of `private`, ε = 1, paired over splits", ""]
    if not found:
        return [*shown, "Not measured: PRIREC_DATA names no folder."]
    shown += [
        "| | devices lost | splits | noise by devices | noise by two operators | difference | 95 % interval |",
        "|---|---|---|---|---|---|---|",
    ]
    for city, rows in found.items():
        for lost, row in rows.items():
            means, splits = [np.mean(row[who]) for who in NOISE_BY], len(row["devices"])
            gap = paired(row["operators"], row["devices"])
            shown.append(
                f"| {city} | {float(lost):.0%} | {splits} | {means[0]:.4f} | {means[1]:.4f} | {gap['mean']:+.4f} "
                f"| {gap['low']:+.4f} to {gap['high']:+.4f} |"
            )
    return shown
