"""Every local mechanism behind one door, so that one suite of claims holds for all of them.

A case says how a mechanism is built for an ε, what it estimates from 8,000 small collections, and the event on two
inputs at which its answers differ most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prirec.features.popularity import OwnCounts
from prirec.privacy.accountant import WORDS
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.randomized_response import RandomizedResponse, estimate, perturb
from prirec_experiments.unary import UnaryEncoding, chances, draw_places

COLLECTIONS = 8000  # so many that 5 % of a standard deviation is 6 of its own, for a single estimate too
POIS = 3
# where each person was: some nowhere, most at POI 0 alone, some at two or all three
SETS = [[]] * 20 + [[0]] * 240 + [[0, 1]] * 20 + [[0, 1, 2]] * 20
PEOPLE = len(SETS)
VISITORS = np.array([280, 40, 20])
VALUES = np.repeat([-2.0, 3.0, 0.0, 1.0], [20, 240, 20, 20])  # of a real-valued feature bounded by -2 and 3
LOW, HIGH = -2.0, 3.0


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[float], Any]
    truth: np.ndarray
    answers: Callable[..., Any]  # (mechanism, stream) -> the answers of all collections
    decode: Callable[..., np.ndarray]  # (mechanism, answers) -> estimates, (COLLECTIONS, of the truth)
    sd: Callable[[Any], np.ndarray]
    events: Callable[..., tuple[np.ndarray, np.ndarray]]  # (mechanism, runs, stream) -> the event on either input

    def __str__(self) -> str:
        return self.name


def swapped(mechanism: Any) -> Any:
    """The same mechanism with p and 1 - p exchanged: a planted mistake."""
    wrong = replace(mechanism)
    if hasattr(wrong, "flip_words"):
        object.__setattr__(wrong, "flip_words", WORDS - mechanism.flip_words)
    if hasattr(wrong, "coin"):
        object.__setattr__(wrong, "coin", swapped(mechanism.coin))
    return wrong


def _in_collections(rows: np.ndarray) -> np.ndarray:
    return rows.reshape(COLLECTIONS, PEOPLE, *rows.shape[1:])


# randomised response: everyone about every POI
_VISITED = np.tile([[place in places for place in range(POIS)] for places in SETS], (COLLECTIONS, 1))


def _response_decode(mechanism, answers):
    return estimate(_in_collections(answers).sum(axis=1), reports=PEOPLE, mechanism=mechanism)


def _response_events(mechanism, runs, stream):
    return perturb(np.ones(runs, bool), mechanism, stream), perturb(np.zeros(runs, bool), mechanism, stream)


RESPONSE = Case(
    name="randomised response",
    build=RandomizedResponse,
    truth=VISITORS,
    answers=lambda mechanism, stream: perturb(_VISITED, mechanism, stream),
    decode=_response_decode,
    sd=lambda mechanism: np.full(POIS, mechanism.standard_deviation(PEOPLE)),
    events=_response_events,
)

# real values: a sum over people
_ALL_VALUES = np.tile(VALUES, (COLLECTIONS, 1))


def _value_events(ask, happened):
    def events(mechanism, runs, stream):
        low, high = (ask(mechanism)(np.full(runs, x), stream) for x in (LOW, HIGH))
        return happened(mechanism, low), happened(mechanism, high)

    return events


ONE_BIT = Case(
    name="one-bit mean",
    build=lambda epsilon: OneBitMean(LOW, HIGH, epsilon),
    truth=np.array([VALUES.sum()]),
    answers=lambda mechanism, stream: mechanism.bits(_ALL_VALUES, stream),
    decode=lambda mechanism, bits: mechanism.estimated_sum(bits.sum(axis=1), reports=PEOPLE)[:, None],
    sd=lambda mechanism: np.array([mechanism.standard_deviation(VALUES)]),
    events=_value_events(lambda mechanism: mechanism.bits, lambda mechanism, bits: ~bits),
)

# unary encoding: one place for a whole visit vector
_ONCE = OwnCounts(POIS, _VISITED[:PEOPLE].ravel().nonzero()[0], np.ones(int(VISITORS.sum())))
_CHANCES = chances(_ONCE, people=PEOPLE)
_EVERY = OwnCounts(POIS, _VISITED.ravel().nonzero()[0], np.ones(COLLECTIONS * int(VISITORS.sum())))


def _unary_answers(mechanism, stream):
    return mechanism.answers(draw_places(_EVERY, people=COLLECTIONS * PEOPLE, below=stream.below), stream)


def _unary_events(mechanism, runs, stream):
    answers = [mechanism.answers(np.full(runs, item), stream) for item in (0, 1)]
    return tuple(bits[:, 0] & ~bits[:, 1] for bits in answers)


UNARY = Case(
    name="unary encoding",
    build=lambda epsilon: UnaryEncoding(epsilon, POIS),
    truth=_CHANCES.total(),
    answers=_unary_answers,
    decode=lambda mechanism, bits: mechanism.estimate(_in_collections(bits).sum(axis=1), people=PEOPLE),
    sd=lambda mechanism: np.sqrt(mechanism.variance(_CHANCES, people=PEOPLE)),
    events=_unary_events,
)

CASES = [RESPONSE, ONE_BIT, UNARY]
