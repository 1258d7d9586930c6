"""How many people does a budget need? One made-up city that more and more people use: private at three budgets, against
no noise and against FM tuned for it, and what a forecast from few people says.

Means over seeds, each a city of its own. The largest cities have one seed. FM is tuned on the records of some people,
for which the AUC on held-out records decides; it is then trained on everyone's.
"""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from prirec import config
from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, make_city
from prirec.evaluate.plots import FAINT, INK, alone, draw, marker, series
from prirec.simulate.compare import TUNED, contender
from prirec.simulate.forecast import as_many
from prirec.simulate.setup import columns_of, run, set_up
from prirec.simulate.tuned_fm import tune
from prirec.util.keyed_random import generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PEOPLE = {3_000: 3, 10_000: 3, 30_000: 3, 100_000: 2, 300_000: 1, 1_000_000: 1}  # and seeds
EPSILONS = (0.5, 1.0, 2.0)
PLACES, RECORDS = 5_000, 10  # a person
FEW = 30_000  # people that FM is tuned on, and that a forecast trains on
WITHIN = 0.015  # of AUC: less than what most people would notice
SHARED, FM, FORECAST = "rounds, no noise", "FM, tuned", "forecast of ε = 1"


def city(people: int, seed: int) -> Dataset:
    plan = CityPlan(people=people, places=PLACES, records=RECORDS * people, districts=12, categories=30)
    return make_city(plan, generator(seed, "how many people"))


def auc(dataset: Dataset, settings: config.Settings) -> float:
    return run(set_up(dataset, settings)).quality.auc


def settings(preset: str, seed: int, **changes: object) -> config.Settings:
    return config.load(changes={"preset": preset, "seed": seed, "data.keep": "all", **changes})


def one(people: int, seed: int) -> dict[str, float]:
    whole, few = city(people, seed), city(min(people, FEW), seed)
    found = {
        _private(epsilon): auc(whole, settings("private", seed, **{"privacy.epsilon_per_user": epsilon}))
        for epsilon in EPSILONS
    }
    found[SHARED] = auc(whole, settings("rounds", seed))
    untuned = contender(TUNED, changes={"seed": seed, "data.keep": "all"}).settings
    found[FM] = auc(whole, tune(few, untuned).settings)
    private = settings("private", seed)
    size = columns_of(few, private).size
    found[FORECAST] = auc(few, as_many(private, few=min(people, FEW), many=people, places=PLACES, size=size))
    return found


def _private(epsilon: float) -> str:
    return f"private, ε = {epsilon:g}"


def measure(people: dict[int, int] | None = None) -> dict[str, Any]:
    """AUC by people and model, a list over seeds."""
    found: dict[str, Any] = {}
    for many, seeds in (people or PEOPLE).items():
        rows = [one(many, seed) for seed in range(seeds)]
        found[str(many)] = {name: [row[name] for row in rows] for name in rows[0]}
        print(many, {name: round(float(np.mean(values)), 4) for name, values in found[str(many)].items()}, flush=True)
    return found


def people_needed(found: dict[str, Any], epsilon: float) -> int | None:
    """From how many people on `private` is within WITHIN of the tuned FM: between the sizes that were measured, by the
    logarithm, to two digits; None: never."""
    sizes = [int(size) for size in found]
    ahead = [float(np.mean(row[_private(epsilon)]) - np.mean(row[FM])) + WITHIN for row in found.values()]
    behind = [at for at, lead in enumerate(ahead) if lead < 0]
    if not behind:
        return sizes[0]
    last = behind[-1]
    if last + 1 == len(sizes):
        return None
    share = -ahead[last] / (ahead[last + 1] - ahead[last])
    between = np.exp((1 - share) * np.log(sizes[last]) + share * np.log(sizes[last + 1]))
    return int(float(f"{between:.1e}"))


def lines(found: dict[str, Any]) -> list[str]:
    names = list(next(iter(found.values())))
    made = [
        f"## How many people a budget needs: a made-up city of {PLACES:,} places, {RECORDS} records a person",
        "",
        f"| people | seeds | {' | '.join(names)} |",
        "|---" * (len(names) + 2) + "|",
    ]
    for people, row in found.items():
        means = " | ".join(f"{np.mean(row[name]):.4f}" for name in names)
        made.append(f"| {int(people):,} | {len(row[FM])} | {means} |")
    made.append("")
    for epsilon in EPSILONS:
        needed = people_needed(found, epsilon)
        where = "never" if needed is None else f"from {needed:,} people on"
        made.append(f"`private` at ε = {epsilon:g} is within {WITHIN:g} of the tuned FM {where}.  ")
    return made


# The picture in the README

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "how-many-people.svg"
WIDTH, HEIGHT = 680, 380


def write(found: dict[str, Any]) -> None:
    """The plot, if there is anything to show."""
    if found:
        PICTURE.write_text(picture(found), encoding="utf-8")


def picture(found: dict[str, Any]) -> str:
    label = "AUC against the number of people, private at three budgets, without noise, and FM"
    return alone(draw(partial(_paint, found=found), label=label, width=WIDTH, height=HEIGHT))


def _paint(figure: "Figure", *, found: dict[str, Any]) -> None:
    axes, people = figure.subplots(), [int(size) for size in found]
    axes.set_xscale("log")
    names = [*map(_private, EPSILONS), SHARED, FM]
    for at, name in enumerate(names):
        means = [float(np.mean(row[name])) for row in found.values()]
        plain = name in (SHARED, FM)
        style = (
            {"color": INK, "linestyle": "--" if name == FM else ":"}
            if plain
            else {"color": series(at), "marker": marker(at)}
        )
        axes.plot(people, means, label=name, **style)
    axes.set_xticks(people, [f"{size:,}" for size in people])
    axes.minorticks_off()
    axes.set(xlabel="people who take part", ylabel="AUC", title="How many people a budget needs")
    axes.grid(color=FAINT)
    axes.legend(frameon=False)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
