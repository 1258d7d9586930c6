"""Attacks on what a private training opens: each succeeds without noise, and is as good as guessing with it.

The attacker knows the settings, the roster and everybody's records but one person's, sees every sum that is opened, and
asks whether that person has records at all: a place that nobody else visits among them, the worst that can be.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.prepare import Prepared
from prirec.engines import plain as opening
from prirec.engines.plain import Rounds, Samplewise, Sums, added
from prirec.features.columns import Layout, ModelSize
from prirec.features.encoding import plan_encoding
from prirec.features.samples import Samples, assemble
from prirec.privacy.accountant import GRAINS, Spent
from prirec.privacy.ledger import Budget, Charge, Ledger, LedgerEntry, Verdict, admit, how_many_more
from prirec.privacy.noise import NoiseShare
from prirec.privacy.plan import Kind, Plan, participants, plan_for
from prirec.rounds.definition import simulated_noise
from prirec.simulate import popularity
from prirec.simulate.setup import set_up
from support.audit import lowest
from support.cities import SMALL_PAPER, SMALL_PRIVATE, change, small_city
from support.exact_figures import fresh

Noise = Callable[..., np.ndarray]
PEOPLE, PLACES, TARGET = 60, 12, 7
ALONE = PLACES - 1  # where nobody but the target goes
KINDS = [Kind.POPULARITY, Kind.MOMENTS] + [Kind.INTERACTION] * 3  # what three rounds open, in order
NOISY = 47 / 60  # the plan's noise is that of 47 honest survivors; here everybody survives, and nobody tells
SURE = math.e / (1 + math.e)  # the most often that anybody is right under ε = 1, but for δ


def city() -> Dataset:
    whole = small_city(people=PEOPLE, places=PLACES, records=300)
    visits = whole.visits
    place = np.where(visits.place == ALONE, 0, visits.place)
    place = np.where(visits.person == TARGET, ALONE, place).astype(np.int32)
    label = np.where(visits.person == TARGET, 1, visits.label).astype(np.int8)
    return whole.with_visits(replace(visits, place=place, label=label))


SETUP = set_up(city(), SMALL_PRIVATE)
THERE, PRIVATE = SETUP.prepared, SETUP.settings


def plan_of(settings: Settings, size: ModelSize | None = None) -> Plan:
    return plan_for(settings, people=PEOPLE, pois=PLACES, size=size)


def most_often(spent: Spent) -> float:
    """How often the best guess about one person is right after these releases."""
    return float(ndtr(math.sqrt(spent.grains / GRAINS * NOISY) / 2))


def some_seed() -> int:
    return int.from_bytes(np.random.default_rng().bytes(6), "little")


@contextmanager
def with_noise(module: ModuleType, noise: Noise) -> Iterator[None]:
    """This noise in the place of the simulated one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "simulated_noise", noise)
        yield


def nothing(wanted: int, count: int, **rest: Any) -> np.ndarray:
    return np.zeros(count, dtype=np.uint64)


def a_twentieth(wanted: int, count: int, **rest: Any) -> np.ndarray:
    """A planted mistake: a twentieth of the standard deviation."""
    noise = simulated_noise(wanted, count, **rest).view(np.int64)
    return np.rint(noise / 20).astype(np.int64).view(np.uint64)


def visits_in(prepared: Prepared) -> np.ndarray:
    """The sum of visits without noise, in whole numbers."""
    with with_noise(popularity, nothing):
        found = popularity.noisy_sums(prepared, PRIVATE)
    bits = plan_of(PRIVATE).release(Kind.POPULARITY).norm.fraction_bits
    return np.rint(found.sums * 2.0**bits).astype(np.int64)


@cache
def without(person: int) -> Prepared:
    return replace(THERE, train=THERE.train.take(THERE.train.person != person))


# A whole training, watched


class Watched(Sums):
    """Sums as they are opened, and what they hold without noise. Fed with what was opened in another world, this one
    goes on from there: what it holds then is what the attacker would expect to see in it."""

    def __init__(self, settings: Settings, fed: list[np.ndarray] | None = None) -> None:
        super().__init__(settings)
        self.fed, self.values = fed, list[dict[int, np.ndarray]]()
        self.held, self.opened, self.variances = list[np.ndarray](), list[np.ndarray](), list[float]()

    def over_roster(self, where, code, values, *, survivors, held):
        seen = super().over_roster(where, code, values, survivors=survivors, held=held)
        among = participants(self.settings, len(values))
        share = NoiseShare(code.noise, among.survivors, among.colluders)
        self.values.append(dict(values))
        self.held.append(added([values[i] for i in survivors]).view(np.int64))
        self.variances.append(float(share.total_variance(len(survivors))))
        self.opened.append(seen.view(np.int64) if self.fed is None else self.fed[len(self.opened)])
        return self.opened[-1].view(np.uint64)


def samples_after(prepared: Prepared, opened: np.ndarray, settings: Settings) -> Samples:
    """What devices learn from once this sum of visits was opened, whatever they have visited."""
    rest = opened - visits_in(prepared)
    with with_noise(popularity, lambda wanted, count, **where: rest.view(np.uint64)):
        counts = popularity.release_popularity(prepared, settings)
    encoding = plan_encoding(prepared.dataset, counts, settings.features)
    return assemble(prepared.dataset, train=prepared.train, test=prepared.test, encoding=encoding, popularity=counts)


def watched(samples: Samples, settings: Settings, fed: list[np.ndarray] | None = None) -> Watched:
    sums = Watched(settings, fed)
    rounds = Rounds(samples, settings, sums)
    state = rounds.start()
    for _ in range(settings.iterations):
        rounds.advance(state)
    return sums


def row_of(person: int, samples: Samples) -> int:
    return samples.ids.index(THERE.dataset.people.ids[person])


def others(one: Watched, other: Watched, row: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """What everybody but whoever has this row adds to each sum, in two worlds."""
    both = zip(one.values, other.values, strict=True)
    return [(here[i], there[i]) for here, there in both for i in here if i != row]


@dataclass(frozen=True)
class View:
    """All that was opened, and what it would hold with the person and without."""

    opened: list[np.ndarray]
    there: list[np.ndarray]
    gone: list[np.ndarray]
    variances: list[float]
    others: list[tuple[np.ndarray, np.ndarray]]  # what every other device adds, in either world
    size: ModelSize

    def moved(self) -> list[float]:
        """The square of how far the person moves each sum, in units."""
        return [float(((a - b) ** 2).sum()) for a, b in zip(self.there, self.gone, strict=True)]

    def favours(self) -> float:
        """The log of how much likelier all of it is with the person than without: no attack is better."""
        return sum(
            float(((y - b) ** 2 - (y - a) ** 2).sum()) / (2 * v)
            for y, a, b, v in zip(self.opened, self.there, self.gone, self.variances, strict=True)
        )


def training(*, seed: int, takes_part: bool, person: int = TARGET, noise: Noise = simulated_noise) -> View:
    settings, worlds = change(PRIVATE, seed=seed), {True: THERE, False: without(person)}
    visits = {here: visits_in(world) for here, world in worlds.items()}
    release = plan_of(settings).release(Kind.POPULARITY)
    sized = {"rostered": PEOPLE, "survivors": PEOPLE, "settings": settings, "where": ("popularity",)}
    opened = visits[takes_part] + noise(release.wanted_whole, PLACES, **sized).view(np.int64)
    samples = {here: samples_after(world, opened, settings) for here, world in worlds.items()}
    with with_noise(opening, noise):
        real = watched(samples[takes_part], settings)
    other = watched(samples[not takes_part], settings, real.opened)
    held = {takes_part: real.held, not takes_part: other.held}
    variance = float(release.noise(participants(settings, PEOPLE)).total_variance(PEOPLE))
    return View(
        opened=[opened, *real.opened],
        there=[visits[True], *held[True]],
        gone=[visits[False], *held[False]],
        variances=[variance, *real.variances],
        others=others(real, other, row_of(person, samples[True])),
        size=samples[True].columns.size,
    )


@pytest.mark.parametrize("takes_part", [True, False])
@pytest.mark.parametrize("person", [TARGET, 0, 31])
def test_given_what_was_opened_a_person_moves_each_sum_by_a_norm_and_all_of_them_by_the_budget(person, takes_part):
    """Not a matter of luck: what was opened moves the others, and nothing else does, however a training goes."""
    for _ in range(3):
        seen = training(seed=some_seed(), takes_part=takes_part, person=person)
        assert len(seen.others) == 4 * (PEOPLE - 1)
        assert all(np.array_equal(one, other) for one, other in seen.others)
        found = plan_of(PRIVATE, seen.size)
        planned_kinds = [release.of.kind for release in found.releases for _ in range(release.of.releases)]
        assert sorted(KINDS) == sorted(planned_kinds)
        norms = [found.release(kind).norm.units for kind in KINDS]
        assert all(moved <= norm**2 for moved, norm in zip(seen.moved(), norms, strict=True))
        told = sum(moved / variance for moved, variance in zip(seen.moved(), seen.variances, strict=True))
        allowed = found.spent.grains / GRAINS * NOISY
        assert 0 < told <= allowed
        assert person != TARGET or told > 0.98 * PRIVATE.privacy.popularity * allowed  # one's visits alone are that


def test_where_another_sum_was_opened_the_others_move_as_well():
    """So that the test before this one could fail."""
    settings, worlds = change(PRIVATE, seed=some_seed()), (THERE, without(TARGET))
    samples = [samples_after(world, visits_in(THERE), settings) for world in worlds]
    one, other = (watched(each, settings) for each in samples)
    moved = [not np.array_equal(*both) for both in others(one, other, row_of(TARGET, samples[0]))]
    assert not any(moved[: PEOPLE - 1])
    assert np.mean(moved[1 - PEOPLE :]) > 0.5  # 0.85 to 1 in 60 trainings; some round to the same whole numbers


def right_guesses(trials: int, noise: Noise = simulated_noise) -> int:
    first = some_seed()
    views = [training(seed=first + n, takes_part=n % 2 == 0, noise=noise) for n in range(trials)]
    return sum((view.favours() > 0) == (n % 2 == 0) for n, view in enumerate(views))


@pytest.mark.long
@pytest.mark.statistical  # false alarm 1e-9; must notice a twentieth of the noise, missed with 1e-7, and none
def test_membership_inference_on_a_whole_training_stays_within_the_budget():
    trials, most = 300, most_often(plan_of(PRIVATE).spent)
    assert 0.54 < most < 0.545
    found = right_guesses(trials)
    assert lowest(found, trials) <= most
    assert found < SURE * trials
    assert lowest(right_guesses(80, a_twentieth), 80, 1e-6) > most
    assert right_guesses(20, nothing) == 20


# One sum of visits


def right_guesses_of_the_place(trials: int) -> int:
    """From the one entry of the sum where only the target can have been."""
    first, worlds = some_seed(), (THERE, without(TARGET))
    seen = [popularity.noisy_sums(worlds[n % 2], change(PRIVATE, seed=first + n)).sums for n in range(trials)]
    return sum((one[ALONE] > 0.5) == (n % 2 == 0) for n, one in enumerate(seen))


@pytest.mark.statistical  # false alarm 1e-9; must notice that there is no noise
def test_a_place_that_one_person_alone_visits_does_not_give_them_away():
    trials, release = 1000, plan_of(PRIVATE).release(Kind.POPULARITY)
    assert lowest(right_guesses_of_the_place(trials), trials) <= most_often(release.each) < 0.54
    with with_noise(popularity, nothing):
        assert right_guesses_of_the_place(20) == 20


def test_the_same_collection_again_tells_nothing_new_and_a_new_one_is_not_covered():
    settings = change(PRIVATE, seed=some_seed())
    assert len({popularity.noisy_sums(THERE, settings).sums.tobytes() for _ in range(5)}) == 1
    release = plan_of(settings).release(Kind.POPULARITY)
    once = Ledger((LedgerEntry(Charge(bytes(16), "popularity", 0, 0, "visits", release.each), 1),))
    assert admit(once, once.entries[0].charge, budget=Budget(), day=2) is Verdict.KNOWN
    assert how_many_more(once, release.each, budget=Budget(), day=2) == 0


@pytest.mark.statistical  # the average is 5.5 sd from where it would mislead: false alarm 1e-6
def test_many_collections_would_give_somebody_away_and_cost_what_nobody_has():
    release, many, trials = plan_of(PRIVATE).release(Kind.POPULARITY), 4000, 20
    noise = release.noise(participants(PRIVATE, PEOPLE)).total(fresh(), survivors=PEOPLE, count=many * trials)
    average = noise.reshape(trials, many).mean(axis=1) / 2.0**release.norm.fraction_bits
    assert (np.abs(average) < 0.5).all()
    assert Spent(release.each.grains * many).loss(1e-6).epsilon > 50


# Sums of gradients of B


@dataclass(frozen=True)
class Dictionary:
    """What the target would add to the first sum, had it been to one place only, for each place."""

    vectors: np.ndarray  # (J, entries), in whole numbers
    layout: Layout
    share: NoiseShare
    cost: Spent

    def noise(self, trials: int) -> np.ndarray:
        length = self.vectors.shape[1]
        return self.share.total(fresh(), survivors=PEOPLE, count=trials * length).reshape(trials, length)

    def guesses(self, seen: np.ndarray) -> np.ndarray:
        """The place whose gradient is nearest to what is left of each sum once all others are taken off."""
        return (seen @ self.vectors.T - (self.vectors**2).sum(axis=1) / 2).argmax(axis=1)

    def of_words(self, seen: np.ndarray) -> np.ndarray:
        """(runs, clock, words): the products of the clock with words, of the first row of B."""
        shape = len(self.layout.clock), self.layout.slots
        return seen[:, self.layout.width - shape[0] * shape[1] : self.layout.width].reshape(len(seen), *shape)


@cache
def dictionary() -> Dictionary:
    # How well an attack works hangs on the noisy scales of columns, from barely to at once: so they are fixed, and what
    # is told apart below by noise from the operating system differs by 30 standard deviations or more.
    settings, train, vectors = change(PRIVATE, seed=3), THERE.train, []
    state = Rounds(samples_after(THERE, visits_in(THERE), settings), settings).start()
    for place in range(PLACES):
        moved = np.where(train.person == TARGET, place, train.place).astype(np.int32)
        samples = samples_after(replace(THERE, train=replace(train, place=moved)), visits_in(THERE), settings)
        rounds = Rounds(samples, settings)
        gradient, _ = rounds.contribution(row_of(TARGET, samples), state.estimate.B, state.moments)
        vectors.append(rounds.codes.interaction.write(gradient).view(np.int64))
    among, code = participants(settings, PEOPLE), rounds.codes.interaction
    release = plan_of(settings, samples.columns.size).release(Kind.INTERACTION)
    share = NoiseShare(code.noise, among.survivors, among.colluders)
    return Dictionary(np.array(vectors), samples.columns.layout, share, release.each)


@pytest.mark.statistical  # 6 sd: false alarm 2e-9; must notice a hundredth of the noise, and none
def test_a_dictionary_of_gradients_finds_the_place_without_noise_and_guesses_with_it():
    found, trials = dictionary(), 4000
    truth = np.arange(trials) % PLACES
    sent, noise = found.vectors[truth], found.noise(trials)
    chance, spread = trials / PLACES, math.sqrt(trials * (1 - 1 / PLACES) / PLACES)
    assert (found.guesses(sent) == truth).all()
    assert abs((found.guesses(sent + noise) == truth).sum() - chance) < 6 * spread
    assert (found.guesses(sent + noise / 100) == truth).sum() > chance + 6 * spread


@pytest.mark.statistical  # false alarm 1e-9; must notice the same noise in both sums, and none
def test_the_difference_of_two_sums_is_a_person_without_noise_and_nothing_with_it():
    """In the first sum the target is, in the second it is lost, and nobody else has moved."""
    found, trials = dictionary(), 2000
    mine = found.vectors[ALONE]
    others = np.arange(mine.size) * 1000
    assert ((others + mine) - others == mine).all()
    there = np.arange(trials)[:, None] % 2 == 0
    first, second = found.noise(trials), found.noise(trials)

    def right(one: np.ndarray, other: np.ndarray) -> int:
        difference = (others + there * mine + one) - (others + other)
        return int(((difference @ mine > mine @ mine / 2) == there[:, 0]).sum())

    assert lowest(right(first, second), trials) <= most_often(found.cost)
    assert right(first, first) == trials


@pytest.mark.statistical  # 6 sd of a mean of 4,000: false alarm 2e-9; must notice a hundredth of the noise, and none
def test_a_plain_gradient_gives_the_features_away_and_a_noisy_sum_does_not():
    """Eq. (4) is 0 for whatever is not in a sample. In the paper's batch of one, that is read off at once. In the
    shared model products of the clock with a word are 0 where no place of the person has the word."""
    samples = set_up(city(), SMALL_PAPER).samples
    paper = Samplewise(samples, SMALL_PAPER)
    state = paper.start()
    T, ring = np.ascontiguousarray(state.interaction.T), paper.codes.interaction.ring
    for row in range(0, len(samples.train), 5):
        x, person = paper.sample(row), int(samples.train.person[row])
        sent = ring.encode(paper.gradient_of_interaction(state.linear[person], T, x, row))
        opened = ring.decode(paper.sums.over_batch([(person, sent)], V=T)).reshape(T.shape)
        assert np.array_equal(np.abs(opened - 2 * SMALL_PAPER.model.lambda_v * T).max(axis=0) > 1e-6, x != 0)

    found, trials = dictionary(), 4000
    mine, noise = found.vectors[[ALONE]], found.noise(trials)
    used = found.of_words(mine)[0].any(axis=0)
    assert 0 < used.sum() < len(used)
    spread = math.sqrt((used.size + 1) / (12 * used.sum() * (~used).sum()) / trials)
    assert abs(auc_of_words(found.of_words(mine + noise), used) - 0.5) < 6 * spread
    assert auc_of_words(found.of_words(mine + noise / 100), used) > 0.5 + 6 * spread
    assert auc_of_words(found.of_words(mine), used) == 1


def auc_of_words(seen: np.ndarray, used: np.ndarray) -> float:
    """How well the size of what is opened about a word tells that it was used; 0.5 is chance."""
    ranks = np.abs(seen).sum(axis=1).argsort(axis=1).argsort(axis=1)[:, used].sum(axis=1)
    pairs = used.sum() * (~used).sum()
    return float((ranks.mean() - used.sum() * (used.sum() - 1) / 2) / pairs)
