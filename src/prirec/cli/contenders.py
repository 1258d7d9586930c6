"""The models that the demo compares. What each collects is said of the design; the demo itself sees everything."""

from prirec.evaluate.comparison import Contender
from prirec.settings_file import load

CHOSEN = "PriRec, private"  # the one that recommends and is saved


def contenders(seed: int) -> tuple[Contender, ...]:
    """Centralised FM, the paper's PriRec without and with popularity, and PriRec in rounds without and with noise."""
    return (
        Contender("FM", "every profile, every record", load(changes={"preset": "fm", "seed": seed})),
        Contender(
            "PriRec-, paper",
            "gradients of V",
            load(changes={"preset": "paper", "seed": seed, "features.dynamic": False}),
        ),
        Contender("PriRec, paper", "gradients of V, counts of visits", load(changes={"preset": "paper", "seed": seed})),
        Contender(
            "PriRec, rounds",
            "sums over 100 people or more, counts of visits",
            load(changes={"preset": "rounds", "seed": seed}),
        ),
        Contender(
            CHOSEN,
            "noisy sums, at ε = 1 a person in all",
            load(changes={"preset": "private", "seed": seed}),
        ),
    )
