"""A shared model within one budget, and each person's own model around it: the learner that is to replace cohorts.

score = base + aᵀ B b + w_i · b. a describes the person, b the place at a moment; both begin with 1. B, the interaction
of the two, is public and learnt by everyone through one noisy sum a round. w_i stays on the device.

Three ideas make it learn a lot from few noisy sums.

1. Every column of a and b has about mean 0 and variance 1. Then the curvature of the loss is about the same in every
   direction, and a gradient, divided by that curvature, points all the way to the optimum: each round is a noisy
   measurement of the best B, and the recommender averages measurements. What it takes to scale private columns (means
   and squares) comes from one noisy sum of its own; the rest is in the public catalogue.
2. The noise of that average is known exactly. Blocks of B that do not rise above it are shrunk towards 0 (James and
   Stein 1961). It is public post-processing, and costs nothing.
3. On the device nothing is noisy: w_i is the mean of a posterior around the shared model. How far people differ is
   found on the device too, by the evidence of its own records for each of a few prior precisions.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from math import log, sqrt
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from prirec.config import Settings
from prirec.features.encoding import Area, Encoding, with_popularity
from prirec.features.history import only_earlier
from prirec.features.samples import Records, Samples, assemble
from prirec.privacy.plan import Kind, Release, Sum, participants, plan
from prirec.rounds.definition import simulated_noise
from prirec.simulate.popularity import release_popularity
from prirec.simulate.setup import Setup
from prirec.types import IndexArray, OffsetArray, RealArray
from prirec_experiments.shared_columns import (
    Layout,
    PrivateColumns,
    block_groups,
    layout,
    person_vectors,
    place_scales,
)
from prirec_experiments.shared_learning import (
    Devices,
    Estimate,
    Public,
    Writing,
    add_contributions,
    learn_alone,
    score_records,
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """The constants of the learner: one choice for all cities. choose.py compares others, on held-out records."""

    moments: float = 0.03  # part of the budget for means and squares
    wide: float = 1000.0  # entries of B at which popularity and B have equal parts of the budget
    crowded: float = 3.0  # for the part of popularity: what a person adds to all counts, before anything is known
    pace: float = 5.0  # rounds that the average of measurements remembers at least
    typical: float = 0.3  # length of the gradient of records with random labels, in units of their own length
    guess: float = 2.5  # curvature at the first round, in units of that of records with random labels
    precisions: tuple[float, ...] = (10.0, 30.0, 100.0, 300.0, 1000.0)  # of the prior of w_i, equally likely beforehand

    def popularity_part(self, *, entries: int, people: int, places: int) -> float:
        """Which part of the budget goes to popularity: the less, the more there is to learn besides, and the fewer
        visits a place has. From public numbers alone."""
        clear = self.crowded * people / max(places, 1)
        return min((1 - self.moments) / (1 + entries / self.wide) * clear**2 / (1 + clear**2), _MOST)


Answer = TypeVar("Answer")
_MOST = 0.92  # of the budget may go to popularity
USUAL = Recipe()
FEATURES: Mapping[str, int | bool] = {"features.areas": 12, "features.own_history": True}  # that it is compared with


# The whole, in simulation


@dataclass(frozen=True, slots=True)
class SharedModel:
    """A trained model: only a simulation has everyone's."""

    public: Public = field(repr=False)
    coefficients: RealArray = field(repr=False)  # (I, columns): Bᵀ a_i + w_i
    losses: tuple[float, ...]  # of the shared model alone, before each round

    def scores(self, records: Records) -> RealArray:
        out = np.empty(len(records))
        score_records(records.place, records.context, records.person, self.public, self.coefficients, out)
        return out


def size(encoding: Encoding) -> int:
    """How many entries of B are learnt. Public before anything is collected."""
    where = layout(encoding)
    return where.width + encoding.width(encoding.person) * len(where.crossed)


def settle(setup: Setup, recipe: Recipe = USUAL) -> Setup:
    """The set-up with popularity collected for the part of the budget that the recipe gives it; without a budget the
    set-up itself."""
    settings, prepared = setup.settings, setup.prepared
    if settings.privacy.epsilon_per_user is None:
        return setup
    part = recipe.popularity_part(
        entries=size(setup.encoding), people=len(setup.samples.ids), places=len(setup.samples.places)
    )
    # the learner has no mixing: its part of the budget, however small, counts for B
    shares = replace(settings.privacy, popularity=part, mixing=(1 - part) / 2, interaction=(1 - part) / 2)
    settings = replace(settings, privacy=shares)
    released = release_popularity(prepared, settings)
    encoding = with_popularity(setup.encoding, released.released)
    samples = assemble(
        prepared.dataset,
        train=prepared.train,
        test=prepared.test,
        encoding=encoding,
        popularity=released,
        earlier=only_earlier(settings.data),
    )
    return dataclasses.replace(setup, settings=settings, popularity=released, encoding=encoding, samples=samples)


def releases(
    settings: Settings, recipe: Recipe, *, people: int, private: PrivateColumns, entries: int
) -> tuple[Release, Release]:
    """The sums of moments and of gradients, within the one budget; popularity has its part already."""
    parts = settings.privacy
    crowd = participants(settings, people)
    everything = parts.popularity + parts.mixing + parts.interaction
    popular, moments = parts.popularity / everything, recipe.moments
    shares = (popular, moments, 1 - popular - moments)
    found = plan(
        (
            Sum(kind=Kind.POPULARITY, share=shares[0], releases=1, crowd=crowd, sensitivity=1.0, length=1),
            Sum(
                kind=Kind.MIXING, share=shares[1], releases=1, crowd=crowd,
                sensitivity=private.norm, length=private.length,
            ),
            Sum(
                kind=Kind.INTERACTION, share=shares[2], releases=settings.iterations, crowd=crowd,
                sensitivity=1.0, length=entries,
            ),
        ),
        epsilon_per_user=parts.epsilon_per_user or 0.0,
        delta=parts.delta,
    )  # fmt: skip
    return found.release(Kind.MIXING), found.release(Kind.INTERACTION)


def learn(
    setup: Setup, *,
    recipe: Recipe = USUAL, threads: int = 2, tell: Callable[[int, float], None] = lambda number, loss: None,
) -> SharedModel:  # fmt: skip
    """Trains on setup.samples.train under the settings' budget, or without noise where there is none."""
    samples, encoding, settings = setup.samples, setup.encoding, setup.settings
    people = len(samples.ids)
    private, where = PrivateColumns.of(encoding), layout(encoding)
    entries = size(encoding)
    noisy = settings.privacy.epsilon_per_user is not None
    moment_sum, gradient_sum = (
        releases(settings, recipe, people=people, private=private, entries=entries) if noisy else (None, None)
    )
    moments = private.read(_sum_of_moments(private.vectors(samples), moment_sum, settings), people)
    devices = Devices(
        samples.train.offsets, samples.train.place, samples.train.context, samples.train.label,
        person_vectors(samples, moments),
    )  # fmt: skip
    groups, random = _groups(encoding, where), sqrt(moments.positive * (1 - moments.positive))
    curvature = recipe.guess * moments.root_records * random / sqrt(entries)
    estimate = Estimate.nothing(groups, curvature, recipe.pace)
    base = log(moments.positive / (1 - moments.positive))
    public = Public(samples.places, where, place_scales(samples, encoding, moments), estimate.shared, base)
    blocks, writing, losses = list(_blocks(samples, threads)), _writing(gradient_sum, entries, recipe.typical), []
    for t in range(settings.iterations):
        total, lost = _sum_of_gradients(devices, public, writing, blocks)
        sd = 0.0
        if gradient_sum is not None:
            noise = _noise(gradient_sum, entries, settings, people, ("shared", t))
            total[groups >= 0] += noise
            sd = gradient_sum.sd_of_sum(people) / people
        losses.append(lost / max(len(samples.train), 1))
        tell(t + 1, losses[-1])
        estimate.take(total * writing.unit / people, sd)
        public = public._replace(B=estimate.shared)
    W, precisions = np.empty((people, where.width)), np.array(recipe.precisions)
    _each(lambda block: learn_alone(block, devices, public, precisions, W), blocks)
    return SharedModel(public, W, tuple(losses))


def _groups(encoding: Encoding, where: Layout) -> IndexArray:
    """(rows, columns): the row of everyone, those of the person's columns and those of areas, each by blocks."""
    of_columns = block_groups(encoding, where)
    kinds = [0, *(1 + isinstance(block, Area) for block in encoding.person for _ in range(block.width))]
    groups: IndexArray = (np.array(kinds)[:, None] * (of_columns.max() + 1) + of_columns).astype(np.int32)
    groups[1:, np.setdiff1d(np.arange(where.width), where.crossed)] = -1
    return groups


def _sum_of_moments(vectors: RealArray, release: Release | None, settings: Settings) -> RealArray:
    if release is None:
        exact: RealArray = vectors.sum(axis=0)
        return exact
    norm = release.norm
    longest = float(norm.before_rounding(vectors.shape[1]))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = 2.0**-norm.fraction_bits
    whole = np.rint(vectors * np.minimum(1, longest / np.maximum(lengths, 1e-300)) / unit).astype(np.int64)
    while (long := (whole * whole).sum(axis=1) > int(norm.units**2)).any():
        whole -= np.sign(whole) * long[:, None]
    noise = _noise(release, vectors.shape[1], settings, len(vectors), ("moments",))
    total: RealArray = (whole.sum(axis=0) + noise) * unit
    return total


def _noise(release: Release, count: int, settings: Settings, people: int, where: tuple[str | int, ...]) -> OffsetArray:
    noise = simulated_noise(
        release.wanted_whole, count, rostered=people, survivors=people, settings=settings, where=where
    )
    return noise.view(np.int64)


def _writing(release: Release | None, entries: int, typical: float) -> Writing:
    """Without noise: fine units, and no bound that could be met."""
    if release is None:
        return Writing(1.0, 2.0**-30, 2**62, typical)
    norm = release.norm
    return Writing(float(norm.before_rounding(entries)), 2.0**-norm.fraction_bits, int(norm.units**2), typical)


def _sum_of_gradients(
    devices: Devices, public: Public, writing: Writing, blocks: list[tuple[int, int]]
) -> tuple[OffsetArray, float]:
    losses = np.zeros(len(devices.who))

    def add(block: tuple[int, int]) -> OffsetArray:
        total = np.zeros(public.B.shape, dtype=np.int64)
        add_contributions(block, devices, public, writing, total, losses)
        return total

    sums: OffsetArray = np.sum(_each(add, blocks), axis=0)
    return sums, float(losses.sum())


def _blocks(samples: Samples, threads: int) -> Iterator[tuple[int, int]]:
    edges = np.searchsorted(samples.train.offsets, len(samples.train) * np.arange(1, threads) / threads)
    cuts = [0, *edges.tolist(), len(samples.ids)]
    yield from ((a, b) for a, b in pairwise(cuts) if a < b)


def _each(task: Callable[[tuple[int, int]], Answer], blocks: list[tuple[int, int]]) -> list[Answer]:
    with ThreadPoolExecutor(len(blocks)) as pool:
        return list(pool.map(task, blocks))
