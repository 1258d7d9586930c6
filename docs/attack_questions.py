"""The questions of the auditor's page: which of two places has this person visited? With what an operator sees of it.

Each is asked of one made-up person four times: in the paper's mode, under double masks with one operator, of whose
roster a twentieth or all others are made up, and over two operators. Nothing is played: the gradient is one that
Algorithm 2 opens in a training with the preset `paper` (experiments/attacks.py); vectors, shares and noise are those
that devices and operators make (privacy/noise.py, proofs/pine.py), in the strength that the plan of the preset
`private` gives. They are drawn from fixed bytes, so that the file is the same each time: `make docs` writes it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from prirec.config import load
from prirec.data.synthetic import CityPlan, make_city
from prirec.engines.plain import Samplewise
from prirec.engines.state import FactorizationState
from prirec.engines.train import train
from prirec.privacy.noise import Stream
from prirec.privacy.plan import Release
from prirec.proofs import pine
from prirec.proofs.parameters import Parameters
from prirec.protocols.two_operators import proof_of
from prirec.simulate.setup import Setup, set_up
from prirec.types import OffsetArray, RealArray
from prirec.util.keyed_random import generator
from prirec_experiments.attacks import Questions, likeness, opened_gradient, place_columns, recover_sample, switches
from recorded_round import release_of_visits, terms_of, visits_of

PAGE = Path(__file__).parents[1] / "web" / "pages" / "audit" / "static" / "questions.json"
TOWN = CityPlan(people=300, places=60, records=12_000, districts=6, categories=12)
ASKED, PASSES = 200, 2
ROSTER, MADE_UP = 1000, 50  # names in a sum of a deployment, and those of them that a plan allows to be made up
NOTHING = 1e-6  # of the largest row of a gradient: what is smaller is the ring's rounding


@dataclass(frozen=True, slots=True)
class Town:
    """A training with the preset `paper`, and the questions about its people."""

    setup: Setup
    state: FactorizationState = field(repr=False)
    asked: Questions

    @classmethod
    def made_up(cls) -> "Town":
        setup = set_up(make_city(TOWN, generator(0, "city")), load(changes={"preset": "paper", "iterations": PASSES}))
        state = train(setup.samples, setup.settings, threads=1).state
        if not isinstance(state, FactorizationState):
            raise TypeError("the preset `paper` learns V")
        return cls(setup, state, of_different_kinds(Questions.about(setup.samples, many=ASKED, seed=0), setup))

    @property
    def names(self) -> tuple[str, ...]:
        return self.setup.encoding.names()

    def in_order(self, values: OffsetArray) -> OffsetArray:
        """Rows of people as the data have them, in the order of the training."""
        rows = {name: row for row, name in enumerate(self.setup.prepared.dataset.people.ids)}
        return values[[rows[name] for name in self.setup.samples.ids]]

    def gradient(self, person: int, place: int) -> RealArray:
        """(D, K): what the recommender opens of this person's sample of this place."""
        records, paper = self.setup.samples.train, Samplewise(self.setup.samples, self.setup.settings)
        row = int(np.flatnonzero((records.person == person) & (records.place == place) & (records.label > 0))[0])
        return opened_gradient(paper, self.state, row)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The sum of visits of ROSTER names, of which one person is looked at and all else is known."""

    alone: Release  # with one operator, under double masks
    joint: Release  # with two
    proof: Parameters  # of the norm, in each report to two

    @classmethod
    def planned(cls, places: int) -> "Deployment":
        one, two = (load(changes={"sums.operators": operators}) for operators in (1, 2))
        alone, joint = (release_of_visits(settings, people=ROSTER, places=places) for settings in (one, two))
        return cls(alone, joint, proof_of(terms_of(two, joint)))

    @property
    def unit(self) -> float:
        return 2.0**-self.alone.norm.fraction_bits

    def noise(self) -> dict[str, float]:
        """Standard deviation of what hides one entry, once everything that an operator knows is taken off."""
        variances = {
            "planned": self.alone.noise().total_variance(ROSTER - MADE_UP),
            "made up": self.alone.noise().variance,
            "two operators": self.joint.noise().variance,
        }
        return {mode: sqrt(variance) * self.unit for mode, variance in variances.items()}

    def left(self, vector: OffsetArray, seed: str) -> dict[str, RealArray]:
        """What is left of the opened sum then: the person's vector, and noise that the operator does not know."""
        length, share = len(vector), self.alone.noise()
        drawn = {
            "planned": share.total(_stream(seed, "planned"), survivors=ROSTER - MADE_UP, count=length),
            "made up": share.draw(_stream(seed, "made up"), length),
            "two operators": self.joint.noise().draw(_stream(seed, "two operators"), length),
        }
        return {mode: np.asarray((vector + noise) * self.unit, dtype=np.float64) for mode, noise in drawn.items()}

    def leader_share(self, vector: OffsetArray, seed: str) -> list[int]:
        """The share of the vector that a report has for the leader: numbers of the field."""
        random = _bytes(seed)
        made = pine.report(self.proof, vector, next(random)[: pine.NONCE], lambda size: _octets(random, size))
        return [int(one) for one in np.frombuffer(made.leader, "<u8")[: len(vector)]]


def questions() -> dict[str, Any]:
    """What everyone may know, the noise of each mode and how often the best guess is right, and the questions."""
    town = Town.made_up()
    places = town.setup.prepared.dataset.places
    deployment = Deployment.planned(len(places))
    vectors = town.in_order(visits_of(town.setup.prepared, deployment.alone))
    noise, unit = deployment.noise(), deployment.unit
    held = vectors[town.asked.person, town.asked.visited] * unit
    sides = generator(0, "sides").integers(2, size=len(town.asked)).tolist()
    return {
        "version": 1,
        "roster": ROSTER,
        "made_up": MADE_UP,
        "features": list(town.names),
        "places": [
            {"name": name, "words": places.words(row), "features": words_of(town.setup, row)}
            for row, name in enumerate(places.ids)
        ],
        "noise": {mode: _short(sd) for mode, sd in noise.items()},
        "expected": {mode: _short(float(np.mean(ndtr(held / (sqrt(2) * sd))))) for mode, sd in noise.items()},
        "questions": [_question(town, deployment, vectors, at, side=side) for at, side in enumerate(sides)],
    }


def _question(town: Town, deployment: Deployment, vectors: OffsetArray, at: int, *, side: int) -> dict[str, Any]:
    """`side` says which of the two is the visited one."""
    asked, seed = town.asked, f"question {at}"
    person, two = int(asked.person[at]), [int(asked.visited[at]), int(asked.decoy[at])][:: -1 if side else 1]
    vector = vectors[person]
    share = deployment.leader_share(vector, seed)
    return {
        "two": two,
        "visited": side,
        "entry": _short(float(vector[asked.visited[at]]) * deployment.unit),
        "paper": _paper(town, town.gradient(person, int(asked.visited[at])), two),
        **{mode: [_short(float(left[one])) for one in two] for mode, left in deployment.left(vector, seed).items()},
        "share": [str(share[one]) for one in two],
    }


def _paper(town: Town, gradient: RealArray, two: list[int]) -> dict[str, Any]:
    """The rows of a gradient that are not 0, with their length; and how alike the sample that is read off it is to each
    of the two places."""
    setup, V = town.setup, town.state.interaction
    read = recover_sample(gradient, V, lambda_v=setup.settings.model.lambda_v, switched=switches(setup.encoding))
    if read is None:
        raise ValueError("the sample has no feature")
    lengths = np.linalg.norm(gradient - 2 * setup.settings.model.lambda_v * V, axis=1)
    rows = np.flatnonzero(lengths > NOTHING * lengths.max())
    alike = likeness(read.x[place_columns(setup.samples)], setup.samples.catalogue[two].astype(np.float64))
    return {
        "rows": [[int(row), _short(float(lengths[row] / lengths.max()))] for row in rows],
        "alike": [_short(float(one)) for one in alike],
    }


def of_different_kinds(asked: Questions, setup: Setup) -> Questions:
    """Without questions about two places with the same words: by eye nobody could tell which of the two it was."""
    pairs = zip(asked.visited.tolist(), asked.decoy.tolist(), strict=True)
    some = np.array([words_of(setup, visited) != words_of(setup, decoy) for visited, decoy in pairs])
    return Questions(asked.person[some], asked.visited[some], asked.decoy[some])


def words_of(setup: Setup, place: int) -> list[int]:
    """The features of 0 and 1 that a place has, which everyone knows."""
    features = place_columns(setup.samples)[setup.samples.catalogue[place] != 0]
    return [int(one) for one in features if switches(setup.encoding)[one]]


def _stream(seed: str, use: str) -> Stream:
    return Stream(next(_bytes(f"{seed}, {use}")))


def _bytes(seed: str) -> Iterator[bytes]:
    return (sha256(f"{seed}, {at}".encode()).digest() for at in count())


def _octets(random: Iterator[bytes], size: int) -> bytes:
    return b"".join(next(random) for _ in range(-(-size // 32)))[:size]


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def as_json() -> str:
    """As the page loads it."""
    return json.dumps(questions(), separators=(",", ":"), ensure_ascii=False).replace('{"two"', '\n{"two"') + "\n"


if __name__ == "__main__":
    PAGE.write_text(as_json(), encoding="utf-8")
