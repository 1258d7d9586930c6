"""The one place where a simulation releases popularity: who reports -> mechanism -> columns and own parts.

A mechanism is one object (`Mechanism`), found by the name that `popularity.mechanism` has in the settings. Whatever
needs to know about mechanisms asks the object: the pipeline below, partitioned data, saved runs, the command line, the
experiments. docs/how-to/own-mechanism.md adds one. What may be combined with which settings is in config.POLICIES,
since settings are checked below this layer.

A simulation sees everyone's visits. Only totals are drawn, from their exact law, and their noise follows from the
run's seed, so that it protects nobody; what devices run is in privacy/.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple, get_args

import numpy as np

from prirec.config import REGISTERED_MECHANISMS, Settings, mechanism_not_collected, type_hints
from prirec.data.dataset import Dataset, Places
from prirec.data.prepare import Prepared
from prirec.errors import PolicyError, UsageError
from prirec.features.encoding import encode_columns, plan_places
from prirec.features.popularity import (
    OwnCounts,
    Popularity,
    Scale,
    average_column,
    nothing_left_out,
    own_means,
    plain_average,
    plain_counts,
    scale_of,
)
from prirec.privacy.norm import Norm
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.plan import Kind, norm_of_visits, plan_for, popularity_entries
from prirec.privacy.popularity_estimate import (
    NEARBY,
    POPULARITY,
    PublicEstimate,
    average,
    average_of_answers,
    estimate_of,
    neighbourhoods_of,
    opened_of,
    public_estimate,
    seen_with,
)
from prirec.privacy.randomized_response import RandomizedResponse, Reporters, estimate, reports_about, simulate_ones
from prirec.privacy.weighted_popularity import NoisySums, capped, in_units, opened, split, stacked, weighted
from prirec.rounds.definition import left_in_collection, opens, simulated_noise, uniforms
from prirec.types import OffsetArray, RealArray
from prirec.util.geography import located
from prirec.util.keyed_random import generator, mix_each, person_keys, run_key

VISITORS = "visitors"
REVEALS = (
    "Only those with a record answer. Whoever answers about a place is known to have a record there, whatever "
    "the answer says: no epsilon bounds that. It is for the paper's table, in simulation."
)


# The pipeline


def release_popularity(prepared: Prepared, settings: Settings) -> Popularity:
    """Popularity as the recommender and devices know it; nothing where dynamic features are off."""
    if not settings.features.dynamic:
        return Popularity()
    return _as_known(mechanism_of(settings).release(reporting(prepared, settings)), settings)


def seen_again(prepared: Prepared, settings: Settings, before: Popularity) -> Popularity:
    """An earlier release that a secure sum opened, as these people's devices see it: perhaps one person alone."""
    return _as_known(SecureSum().seen_again(reporting(prepared, settings), before), settings)


def _as_known(found: Popularity, settings: Settings) -> Popularity:
    return found if settings.features.own_left_out else nothing_left_out(found)


def columns(dataset: Dataset, settings: Settings) -> tuple[str, ...]:
    """Names of the columns that these settings release, from public tables and declarations; no visit is looked at.

    Plain counts have a column of visits only where somebody came to a place twice; here they always have."""
    if not settings.features.dynamic:
        return ()
    for name in settings.features.averages:
        scale_of(dataset, name)  # refuses what could not be averaged
    return (*mechanism_of(settings).columns(dataset), *(average_column(name) for name in settings.features.averages))


class Average(NamedTuple):
    """One number of visits, such as what was spent, that places get an average of."""

    column: str
    scale: Scale
    own: OwnCounts  # each person's own mean at each place, on the scale from -1 to 1


@dataclass(frozen=True, slots=True)
class Reporting:
    """What devices hold before a mechanism comes: all that it may be made of. Only a simulation sees it whole."""

    prepared: Prepared = field(repr=False)  # everyone
    left: Prepared = field(repr=False)  # the training records of those whose devices are not lost on the way
    survivors: int  # how many people that are, with or without a record
    settings: Settings = field(repr=False)

    @property
    def people(self) -> int:
        return len(self.prepared.dataset.people)

    @property
    def places(self) -> int:
        return len(self.prepared.dataset.places)

    def visitors(self) -> OwnCounts:
        return visitors(self.left)

    def averages(self) -> list[Average]:
        return averages_of(self.left, self.settings)


def reporting(prepared: Prepared, settings: Settings) -> Reporting:
    """Everyone is asked once, and waited for; participation.dropout says who is lost over it."""
    if not settings.participation.dropout:
        return Reporting(prepared, prepared, len(prepared.dataset.people), settings)
    there = left_in_collection(person_keys(prepared.dataset.people.ids), settings)
    left = prepared if there.all() else replace(prepared, train=prepared.train.take(there[prepared.train.person]))
    return Reporting(prepared, left, int(there.sum()), settings)


def visitors(prepared: Prepared) -> OwnCounts:
    """Who was where in the training records, each person once a place."""
    positive = prepared.train.take(prepared.train.label > 0)
    return OwnCounts.of(positive, places=len(prepared.dataset.places)).once()


def with_a_record(prepared: Prepared) -> OffsetArray:
    """(J,): how many people have a visit to the place, or a negative of it, in the training records."""
    return OwnCounts.of(prepared.train, places=len(prepared.dataset.places)).once().total().astype(np.int64)


def averages_of(prepared: Prepared, settings: Settings) -> list[Average]:
    """Everyone's own means of whatever features.averages names."""
    dataset, found = prepared.dataset, []
    for name in settings.features.averages:
        scale = scale_of(dataset, name)
        own = own_means(prepared.train, name, scale, places=len(dataset.places))
        found.append(Average(average_column(name), scale, own))
    return found


def public_features(places: Places, settings: Settings) -> RealArray | None:
    """(J, p): the encoded columns of the catalogue; None where it has no columns."""
    features = encode_columns(plan_places(places, settings.features), places.columns, len(places)).astype(np.float64)
    return features if features.shape[1] else None


# Mechanisms


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    """The price of answers that each device randomises by itself: a bit for each place, one more for each average of
    it, and all of them are one person's."""

    epsilon_per_bit: float
    bits: int  # of one person, if everyone reports
    reporters: str
    reveals_who_was_there: bool
    epsilon_per_user_and_collection: float | None  # None: no ε bounds it
    chance_of_a_false_answer: float
    sd_of_a_count: float | None  # None: how many report is not known before


class Mechanism(ABC):
    """How popularity leaves devices."""

    name: str  # as popularity.mechanism has it
    spends: bool = True  # a second collection would cost people again, so that a saved release is used again
    local: bool = False  # the recommender sees each device's own report, randomised on the device
    without_a_promise: str = ""  # one sentence for settings that promise no budget

    @abstractmethod
    def columns(self, dataset: Dataset) -> tuple[str, ...]:
        """Names of the released columns, averages left out."""

    @abstractmethod
    def release(self, devices: Reporting) -> Popularity:
        """Simulate the collection; the released columns, and the part of them that each device knows to be its own."""

    def price(self, settings: Settings, *, people: int, places: int) -> LocalAnswers | None:
        """What local answers cost a person. None for reports that are no answers: a sum has its row in privacy/plan."""
        del settings, people, places
        return None

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        """What a reader of the settings would not expect of this mechanism."""
        del settings
        return ()

    @property
    def refusal(self) -> str | None:
        """Why no deployment may use it; None if devices can run it."""
        return mechanism_not_collected(self.name)


class PlainCounts(Mechanism):
    """Counts in the clear, for comparison with centralised models: no device reports anything, nobody is protected."""

    name = "plain"
    spends = False
    without_a_promise = "Popularity comes from plain counts."

    def columns(self, dataset: Dataset) -> tuple[str, ...]:
        recent = ("recent visits",) if dataset.visits.time is not None else ()
        return (VISITORS, "visits", *recent)

    def release(self, devices: Reporting) -> Popularity:
        # everyone is in the counts, also whoever is lost: nothing is collected that a device could be missing from
        everyone, settings = devices.prepared, devices.settings
        counts = plain_counts(everyone.train, places=devices.places, recent_days=settings.features.recent_days)
        averages = averages_of(everyone, settings)
        return _together(counts, *(plain_average(one.own, one.scale, name=one.column) for one in averages))


class SumNoise(NamedTuple):
    """The noise in the sum of visits, in whole numbers of what vectors are written in."""

    norm: Norm
    noise: OffsetArray
    variance: Fraction


class SecureSum(Mechanism):
    """Each device reports its vector of visits, scaled to norm 1, under masks and with its share of noise. The
    recommender opens the sum alone, and a posterior is made of it by what is public. Priced by the one budget."""

    name = "secure-sum"

    def columns(self, dataset: Dataset) -> tuple[str, ...]:
        return (POPULARITY, NEARBY) if _has_surroundings(dataset.places.location) else (POPULARITY,)

    def release(self, devices: Reporting) -> Popularity:
        places, sums = devices.prepared.dataset.places, self.noisy_sums(devices)
        counted = split(sums, 1 + len(devices.settings.features.averages))[0]
        features = public_features(places, devices.settings)
        return self._seen(devices, sums, public_estimate(counted, location=places.location, features=features))

    def seen_again(self, devices: Reporting, before: Popularity) -> Popularity:
        """An earlier release as these devices see it, which may be some of those that took part: nothing is drawn."""
        if (opened := before.opened) is None:
            raise UsageError("this release came from no secure sum")
        mine = in_units(self.contributions(devices), norm_of_visits(devices.places, devices.settings))
        return self._seen(devices, NoisySums(opened.sums, opened.sigma, mine), estimate_of(before, opened))

    def _seen(self, devices: Reporting, release: NoisySums, public: PublicEstimate) -> Popularity:
        names = devices.settings.features.averages
        counted, *values = split(release, 1 + len(names))
        counts = seen_with(counted, public)
        averages = [
            average(
                counts.released[POPULARITY],
                counts.own[POPULARITY],
                sums,
                scale_of(devices.prepared.dataset, name),
                name=average_column(name),
            )
            for name, sums in zip(names, values, strict=True)
        ]
        return replace(_together(counts, *averages), opened=opened_of(release.sums, release.sigma, public))

    def noisy_sums(self, devices: Reporting) -> NoisySums:
        """The one sum that is opened, in units of a person's norm: visitors, then whatever is averaged."""
        people, places, survivors = devices.people, devices.places, devices.survivors
        drawn = self.noise(devices.settings, people=people, places=places, survivors=survivors)
        own = self.contributions(devices)
        return opened(own, norm=drawn.norm, noise=drawn.noise, noise_variance=drawn.variance)

    def noise(self, settings: Settings, *, people: int, places: int, survivors: int) -> SumNoise:
        """All survivors' shares together. PolicyError where too few survive for the sum to be opened."""
        release = plan_for(settings, people=people, pois=places).release(Kind.POPULARITY)
        if not opens(survivors, rostered=people, settings=settings):
            left = f"popularity is not opened: {survivors} of {people} devices are left, "
            if settings.sums.operators == 2:
                raise PolicyError(f"{left}fewer than the floor; lower participation.dropout")
            raise PolicyError(f"{left}fewer than sums.lost allows; lower participation.dropout or raise sums.lost")
        noise = simulated_noise(
            release.wanted_whole,
            release.of.length,
            rostered=people,
            survivors=survivors,
            settings=settings,
            where=("popularity",),
        ).view(np.int64)
        return SumNoise(release.norm, noise, release.noise().total_variance(survivors))

    def contributions(self, devices: Reporting) -> OwnCounts:
        """Everyone's vector of norm 1, before it is rounded: the places, then the places again for each average."""
        mine, cap = devices.visitors(), devices.settings.popularity.cap
        if cap is None:
            averaged = {one.column: one.own for one in devices.averages()}
            return stacked(list(weighted({VISITORS: mine, **averaged}).values()))
        return capped(mine, most=cap, draws=self._draws(mine, devices))

    def _draws(self, own: OwnCounts, devices: Reporting) -> RealArray:
        """One number for each pair of a person and a place, by their keys: whatever rows people stand in."""
        seed, ids = devices.settings.seed, devices.prepared.dataset.people.ids
        people, places = person_keys(ids)[own.pairs // own.places], (own.pairs % own.places).astype(np.uint64)
        return uniforms(run_key(seed, "cap of popularity"), people ^ mix_each(run_key(seed, "cap of places"), places))


class RandomizedAnswers(Mechanism):
    """The paper's own, Eqs. (5) and (6): each device answers "visited or not" for every place, flipping each bit with a
    known chance. ε is for each BIT. The recommender counts the answers and corrects for the flips."""

    name = "randomized-response"
    local = True

    def columns(self, dataset: Dataset) -> tuple[str, ...]:
        return (VISITORS,)

    def release(self, devices: Reporting) -> Popularity:
        chosen, rng = devices.settings.popularity, generator(devices.settings.seed, "popularity")
        reports = reports_about(
            Reporters(chosen.reporters), people=devices.survivors, with_a_record=with_a_record(devices.left),
            in_simulation=True,
        )  # fmt: skip
        counts = answered(devices.visitors(), reports=reports, epsilon_per_bit=chosen.epsilon_per_bit, rng=rng)
        averages = [self._average(one, counts.released[VISITORS], devices, rng) for one in devices.averages()]
        return _together(counts, *averages)

    def price(self, settings: Settings, *, people: int, places: int) -> LocalAnswers:
        chosen, bits = settings.popularity, popularity_entries(places, settings)
        coin, everyone = RandomizedResponse(chosen.epsilon_per_bit), self._everyone_reports(settings)
        return LocalAnswers(
            epsilon_per_bit=chosen.epsilon_per_bit,
            bits=bits,
            reporters=chosen.reporters,
            reveals_who_was_there=not everyone,
            epsilon_per_user_and_collection=coin.loss_per_user(bits).epsilon if everyone else None,
            chance_of_a_false_answer=float(coin.flip),
            sd_of_a_count=coin.standard_deviation(people) if everyone else None,
        )

    def warnings(self, settings: Settings) -> tuple[str, ...]:
        if self._everyone_reports(settings):
            return ()
        return (f"popularity.reporters is '{settings.popularity.reporters}': {REVEALS[0].lower()}{REVEALS[1:]}",)

    def _everyone_reports(self, settings: Settings) -> bool:
        return Reporters(settings.popularity.reporters) is Reporters.EVERYONE

    def _average(
        self, wanted: Average, estimated: RealArray, devices: Reporting, rng: np.random.Generator
    ) -> Popularity:  # fmt: skip
        """From one more bit of each person who reports about a place (one-bit mean).

        If everyone reports, whoever was not at a place sends a bit about the lower bound, a visitor without a value one
        about the middle of the range, and there are as many visitors as Eq. (6) has estimated. If only those with a
        record report, and a record is a visit with a value here, their number is known."""
        mechanism = OneBitMean(-1.0, 1.0, devices.settings.popularity.epsilon_per_bit)
        if self._everyone_reports(devices.settings):
            own = _at_every_visitor(wanted.own, devices.visitors())
            reports: int | OffsetArray = devices.survivors
            there, sd_of_there = estimated, mechanism.coin.standard_deviation(devices.survivors)
        else:
            own, there, sd_of_there = wanted.own, wanted.own.once().total(), 0.0
            reports = there.astype(np.int64)
        ones = mechanism.simulate_ones(own, reports=reports, rng=rng)
        sd_of_sum = mechanism.largest_deviation(there, reports=reports)
        return average_of_answers(
            there,
            # everyone who was not there is in the estimated sum with -1
            mechanism.estimated_sum(ones, reports=reports) + (reports - there),
            # B - rA = sum + reports - (1 + r) A, and the answers behind the sum and A are independent
            noise=lambda r: sd_of_sum**2 + ((1 + r) * sd_of_there) ** 2,
            own=own,
            scale=wanted.scale,
            name=wanted.column,
        )


MECHANISMS: dict[str, Mechanism] = {}


def register(mechanism: Mechanism) -> Mechanism:
    """Make a mechanism known by its name; the last one registered under a name is the one that is used."""
    MECHANISMS[mechanism.name] = mechanism
    if mechanism.name not in get_args(type_hints()["popularity.mechanism"]):
        REGISTERED_MECHANISMS.append(mechanism.name)  # so that settings, and a saved run's, may name it
    return mechanism


for _one in (PlainCounts(), SecureSum(), RandomizedAnswers()):
    register(_one)


def mechanism_of(settings: Settings) -> Mechanism:
    """The mechanism that these settings name, whether or not dynamic features are on."""
    found = MECHANISMS.get(settings.popularity.mechanism)
    if found is None:
        raise UsageError(
            f"no mechanism '{settings.popularity.mechanism}' is registered; there are {', '.join(MECHANISMS)}"
        )
    return found


def noisy_sums(prepared: Prepared, settings: Settings) -> NoisySums:
    """What a secure sum of this city opens, before anything is made of it."""
    return SecureSum().noisy_sums(reporting(prepared, settings))


def answered(
    own: OwnCounts, *, reports: int | OffsetArray, epsilon_per_bit: float, rng: np.random.Generator
) -> Popularity:  # fmt: skip
    """Eqs. (5) and (6): the estimated visitors of each place from so many answers about it, `own` being the visits.

    What a device leaves out is its truth y, 1 or 0: its answer y' adds (y' - q) / (1 - 2q) to the estimate, whose mean
    is y for every ε. What is left to it has the same mean and variance whether it was there or not. A device knows its
    answer too, and could leave out what that really added."""
    mechanism, true_visitors = RandomizedResponse(epsilon_per_bit), own.total().astype(np.int64)
    ones = simulate_ones(true_visitors, reports=reports, mechanism=mechanism, rng=rng)
    return Popularity({VISITORS: estimate(ones, reports=reports, mechanism=mechanism)}, {VISITORS: own})


def _together(*parts: Popularity) -> Popularity:
    released = {name: column for part in parts for name, column in part.released.items()}
    return Popularity(released, {name: own for part in parts for name, own in part.own.items()})


def _has_surroundings(location: RealArray | None) -> bool:
    """Whether enough places have coordinates for a column of surroundings."""
    return location is not None and bool(neighbourhoods_of(int(located(location).sum())))


def _at_every_visitor(values: OwnCounts, visits: OwnCounts) -> OwnCounts:
    """The values with 0, the middle of the range, for visitors who have none."""
    filled = np.zeros(len(visits.pairs))
    filled[np.searchsorted(visits.pairs, values.pairs)] = values.counts
    return OwnCounts(visits.places, visits.pairs, filled)
