"""What noise by two operators costs in AUC against noise by devices, paired over splits, on real data.

    PRIREC_DATA=FOLDER python benchmarks/two_operators.py --city yelp --splits 10

Every seed is a split of its own, with the same records for both. Where devices are lost, their share of the noise is
lost with them; two operators add all of theirs whoever comes.
"""

import argparse
import sys
from functools import partial

import numpy as np

from cities import real_data
from prirec_experiments.cities import CITIES as KNOWN
from private import CITIES, auc_of, paired

LOST = (0.0, 0.1)


def measure(city: str, *, splits: int) -> list[str]:
    """A table: a row for each share of devices that is lost."""
    folder = real_data()
    if folder is None:
        sys.exit("PRIREC_DATA names no folder of real data")
    auc = partial(auc_of, KNOWN[city], KNOWN[city].open(folder))
    lines = [
        f"{city}, ε = 1, {splits} splits",
        "",
        "| devices lost | noise by devices | noise by two operators | difference, paired | 95 % interval |",
        "|---|---|---|---|---|",
    ]
    for lost in LOST:
        devices, operators = (
            [auc(seed, preset="private", participation__dropout=lost, sums__operators=number) for seed in range(splits)]
            for number in (1, 2)
        )
        found = paired(operators, devices)
        lines.append(
            f"| {lost:.0%} | {np.mean(devices):.4f} | {np.mean(operators):.4f} | {found['mean']:+.4f} "
            f"| {found['low']:+.4f} to {found['high']:+.4f} |"
        )
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--city", choices=CITIES, default="yelp")
    parser.add_argument("--splits", type=int, default=10)
    chosen = parser.parse_args()
    sys.stdout.write("\n".join(measure(chosen.city, splits=chosen.splits)) + "\n")
