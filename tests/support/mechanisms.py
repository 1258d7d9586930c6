"""Every local mechanism behind one door, so that one suite of claims holds for all of them.

A case says how a mechanism is built for an ε, what it estimates from 8,000 small collections, and the event on two
inputs at which its answers differ most.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from prirec.privacy.hadamard import HadamardResponse
from prirec.privacy.local_hashing import HashedAnswers, LocalHashing
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.one_place import Visits
from prirec.privacy.piecewise import CELLS, Piecewise
from prirec.privacy.randomized_response import RandomizedResponse, estimate, perturb
from prirec.privacy.sampling_pois import SampledPois, look_up
from prirec.privacy.unary import OptimisedUnary
from prirec.privacy.units import WORDS

COLLECTIONS = 8000  # so many that 5 % of a standard deviation is 6 of its own, for a single estimate too
POIS = 3
# where each person was: some nowhere, most at POI 0 alone, some at two or all three
SETS = [[]] * 20 + [[0]] * 240 + [[0, 1]] * 20 + [[0, 1, 2]] * 20
PEOPLE = len(SETS)
VISITORS = np.array([280, 40, 20])
VALUES = np.repeat([-2.0, 3.0, 0.0, 1.0], [20, 240, 20, 20])  # of a real-valued feature bounded by -2 and 3
LOW, HIGH = -2.0, 3.0


def visits_of(collections: int, slots: int) -> Visits:
    sizes = np.tile([len(places) for places in SETS], collections)
    places = np.array([place for places in SETS for place in places], dtype=np.int32)
    return Visits(np.concatenate([[0], np.cumsum(sizes)]), np.tile(places, collections), slots)


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
    for name in ("flip_words", "outside_words", "other_words"):
        if hasattr(wrong, name):
            object.__setattr__(wrong, name, WORDS - getattr(mechanism, name))
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
PIECEWISE = Case(
    name="piecewise",
    build=lambda epsilon: Piecewise(LOW, HIGH, epsilon),
    truth=np.array([VALUES.sum()]),
    answers=lambda mechanism, stream: mechanism.answers(_ALL_VALUES, stream),
    decode=lambda mechanism, cells: mechanism.estimates(cells).sum(axis=1)[:, None],
    sd=lambda mechanism: np.array([mechanism.standard_deviation(VALUES)]),
    events=_value_events(
        lambda mechanism: mechanism.answers,
        # the window of the lowest value, without that of the highest
        lambda mechanism, cells: (cells < mechanism.width) & (cells < CELLS - mechanism.width),
    ),
)


# one place for a whole visit vector
def _one_place(name: str, build, supports, favoured) -> Case:
    slots = 2
    visits, all_visits = visits_of(1, slots), visits_of(COLLECTIONS, slots)

    def decode(mechanism, answers):
        return mechanism.support.estimate(supports(mechanism, answers), people=PEOPLE, slots=slots)

    def events(mechanism, runs, stream):
        return tuple(favoured(mechanism, mechanism.answers(np.full(runs, item), stream)) for item in (0, 1))

    return Case(
        name=name,
        build=lambda epsilon: build(epsilon, POIS),
        truth=visits.weighted_popularity(POIS),
        answers=lambda mechanism, stream: mechanism.answers(all_visits.drawn(stream), stream),
        decode=decode,
        sd=lambda mechanism: np.sqrt(mechanism.support.variance(visits, POIS)),
        events=events,
    )


def _hashed_supports(mechanism, answers):
    parts = (_in_collections(part) for part in (answers.a, answers.b, answers.values))
    return np.array([mechanism.supports(HashedAnswers(*part)) for part in zip(*parts, strict=True)])


def _hashed_favour(mechanism, answers):
    shift = np.uint64(64 - mechanism.bits)
    return (answers.values == answers.b >> shift) & (answers.values != (answers.a + answers.b) >> shift)


UNARY = _one_place(
    "optimised unary",
    OptimisedUnary,
    lambda mechanism, bits: _in_collections(bits).sum(axis=1),
    lambda mechanism, bits: bits[:, 0] & ~bits[:, 1],
)
HASHING = _one_place("local hashing", LocalHashing, _hashed_supports, _hashed_favour)
HADAMARD = _one_place(
    "Hadamard response",
    HadamardResponse,
    lambda mechanism, answers: np.array([mechanism.supports(each) for each in _in_collections(answers)]),
    lambda mechanism, answers: (np.bitwise_count(answers & 1) == 0) & (np.bitwise_count(answers & 2) == 1),
)


# k POIs drawn from the catalogue
def _sampled_answers(mechanism, stream):
    visits = visits_of(COLLECTIONS, 1)
    asked = mechanism.questions(COLLECTIONS * PEOPLE, stream)
    return asked, mechanism.answers(look_up(asked, starts=visits.starts, places=visits.places, pois=POIS), stream)


def _sampled_decode(mechanism, answers):
    asked, given = (_in_collections(part) for part in answers)
    return np.array([mechanism.estimate(q, a) for q, a in zip(asked, given, strict=True)])


def _sampled_events(mechanism, runs, stream):
    always, never = (np.full((runs, mechanism.sampled), truth) for truth in (True, False))
    return mechanism.answers(always, stream).all(axis=1), mechanism.answers(never, stream).all(axis=1)


SAMPLED = Case(
    name="sampled POIs",
    build=lambda epsilon: SampledPois(epsilon, POIS, sampled=2),
    truth=VISITORS,
    answers=_sampled_answers,
    decode=_sampled_decode,
    sd=lambda mechanism: np.sqrt(mechanism.variance(VISITORS, people=PEOPLE)),
    events=_sampled_events,
)

CASES = [RESPONSE, ONE_BIT, PIECEWISE, UNARY, HASHING, HADAMARD, SAMPLED]
