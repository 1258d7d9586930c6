"""All settings of a run: sections with defaults and limits, presets, the rules that hold between settings, and TOML.

A preset fills the settings, a TOML file and command-line flags change them, and a run saves all of them.
To add a setting, add a field with its limit to a section: checks, TOML and docs/reference/settings.md follow.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

import msgspec

from prirec.errors import DataError, PolicyError, PrirecError, UsageError
from prirec.util.decode_errors import NOT_TOML
from prirec.util.files import read_text
from prirec.util.sentences import suggest

HARD_FLOOR = 50  # no setting lets a sum over fewer people be opened
DIVERGES = (
    "S_if = 1 adds the neighbours' models up instead of averaging them: with N = 30 they grow thirtyfold a step, from "
    "0.01 past 10^11 in ten steps, and leave the ring (decisions/0001)"
)
PresetName = Literal["paper", "rounds", "private", "fm"]


# Limits stand in the type of the setting they limit. msgspec passes over them; check() reads them.


@dataclass(frozen=True, slots=True)
class Limit:
    """What the value of one setting may be. None, where a setting may be left out, is always within the limit."""

    holds: Callable[[Any], bool]
    words: str  # after "must be" in the error, and on the page of settings
    symbol: str = ""  # what the paper calls the setting

    def problem(self, name: str) -> str:
        return f"{name}{self.symbol and f' ({self.symbol})'} must be {self.words}"


def _between(low: int, high: int, *, words: str = "", symbol: str = "") -> Limit:
    return Limit(lambda value: low <= value <= high, words or f"between {low} and {high}", symbol)


def _thousandths(*, below: int, words: str) -> Limit:
    """A share in whole thousandths: the terms of a sum, which every member signs, hold whole numbers only."""
    whole = f"in whole thousandths, at least 0 and below {words}"
    return Limit(lambda x: 0 <= 1000 * x < below and abs(1000 * x - round(1000 * x)) < 1e-9, whole)


_FROM_ONE = Limit(lambda value: value >= 1, "at least 1")
# Comparisons from both sides also refuse NaN, which TOML can write.
Count: TypeAlias = Annotated[int, _FROM_ONE]
OptionalCount: TypeAlias = Annotated[int | None, _FROM_ONE]
Positive: TypeAlias = Annotated[float, Limit(lambda value: 0 < value < inf, "positive and finite")]
NotNegative: TypeAlias = Annotated[float, Limit(lambda value: 0 <= value < inf, "finite and not negative")]
OptionalPart: TypeAlias = Annotated[float | None, Limit(lambda part: 0 <= part <= 1e6, "between 0 and 1000000")]
InnerShare: TypeAlias = Annotated[float, Limit(lambda value: 0 < value < 1, "between 0 and 1")]  # neither 0 nor 1


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: immutable, and strict about its keys."""


class Data(Section, frozen=True):
    """Which records are learnt from, and which are held out for the test."""

    # filter places by visitors, or places and people by records; paper: by visitors without labels, else by records
    keep: Literal["paper", "visitors", "records", "all"] = "paper"
    at_least: OptionalCount = None  # for the filter: least visitors of a place (10), or least records (5)
    # test on random records; on each person's latest; or on whole moments: what was shown together stays together
    split: Literal["record", "time", "moment"] = "record"
    train_share: InnerShare = 0.8  # share of the records to train on
    negatives: Literal["uniform", "nearby"] = "uniform"  # draw places not visited from all, or near a visited one
    ratio: Annotated[int, _between(1, 1000)] = 1  # negatives drawn for each visit, if the data have no labels
    thin: OptionalCount = None  # with labels: keep at most so many ignored places for each click of the same moment


class Features(Section, frozen=True):
    """What a sample X^ij is made of."""

    dynamic: bool = True  # POI popularity; without it PriRec becomes the paper's PriRec-
    own_left_out: bool = True  # a device subtracts its own visits from the popularity of a place (decisions/0006)
    averages: tuple[str, ...] = ()  # numeric columns of visits, such as money spent: their mean is a place's feature
    context: bool = True  # distance from home, hour, day of the week, columns of the visits
    own_history: bool = True  # how near and how like the places are that the person has visited (decisions/0019)
    # area of the person's home: the nearest of so many centres of the catalogue's places; 0: no such feature
    areas: Annotated[int, _between(0, 256)] = 12
    words: Annotated[int, _between(0, 65_536)] = 30  # so many most common words of a public column have a feature each
    buckets: Annotated[int, _between(1, 4096)] = 8  # hashed features for a private column whose words are not declared
    recent_days: Annotated[int, _between(1, 36_500)] = 30  # days that the recent popularity of a place covers


class Popularity(Section, frozen=True):
    """How the dynamic features leave devices."""

    # plain counts and randomized response exist in simulation only
    mechanism: Literal["plain", "secure-sum", "randomized-response"] = "plain"
    cap: OptionalCount = None  # secure-sum: count at most so many places of a person, instead of scaling to norm 1
    # randomized-response: a person sends a bit for each place, and for each place and average
    epsilon_per_bit: Positive = 1.0
    # randomized-response: who answers about a place; those-with-a-record reveals the visit by the answering
    reporters: Literal["everyone", "those-with-a-record"] = "everyone"


class MechanismPolicy(NamedTuple):
    """What a popularity mechanism may be combined with; the mechanisms themselves are in simulate/popularity.py."""

    budgeted: bool = False  # its noise is paid from privacy.epsilon_per_user, so that it needs one
    collected: bool = False  # devices of a deployment can run it


# By name; a mechanism that is not listed stays outside every budget, and inside simulations.
REGISTERED_MECHANISMS: list[str] = []  # names of mechanisms of one's own, which settings may then have
POLICIES: dict[str, MechanismPolicy] = {"secure-sum": MechanismPolicy(budgeted=True, collected=True)}


def mechanism_not_collected(mechanism: str) -> str | None:
    """Why no deployment may use this mechanism of popularity; None if it may."""
    if POLICIES.get(mechanism, MechanismPolicy()).collected:
        return None
    return f"popularity.mechanism: only {_mechanisms(collected=True)} is collected"


def _mechanisms(**wanted: bool) -> str:
    return " or ".join(f"'{name}'" for name, one in POLICIES.items() if wanted.items() <= one._asdict().items())


class Privacy(Section, frozen=True):
    """One budget for everything computed from a person; its parts are parts of the sum of 1/sigma^2."""

    # epsilon of each person over all releases; none: no promise and no noise, in simulation only
    epsilon_per_user: Annotated[
        float | None, Limit(lambda e: 0 < e <= 50, "above 0 and at most 50; beyond that nothing is promised")
    ] = None
    delta: InnerShare = 1e-6  # probability with which the epsilon bound may fail, for each person
    period_days: OptionalCount = None  # the budget holds for any so many days in a row; none: for life
    # parts may have any sum, only their ratio counts; none: the plan chooses these three (decisions/0025)
    popularity: OptionalPart = None  # part for the sum of visits
    moments: OptionalPart = None  # part for the sum of means and squares of private columns
    interaction: OptionalPart = None  # part for the sums of gradients of the shared model
    # part for quality figures (AUC, log loss, hit rate); 0: none are taken
    quality: Annotated[float, Limit(lambda part: 0 <= part <= 1e6, "between 0 and 1000000")] = 0.0


class Model(Section, frozen=True):
    """The factorization machine of Eq. (1) and the objective of Eq. (2): the paper's schedule and the baseline."""

    dimension: Annotated[int, _between(1, 256, symbol="K")] = 5  # K, the columns of V
    lambda_w: NotNegative = 1e-3  # regularisation of W
    lambda_v: NotNegative = 1e-4  # regularisation of V
    spread: Positive = 0.05  # V starts from N(0, spread^2), W from 0


class Linear(Section, frozen=True):
    """How the linear models W of the paper's schedule and of the baseline are learnt."""

    alpha: Positive = 0.02  # the learning rate
    gamma: Annotated[float, _between(0, 1)] = 1.0  # weight of the neighbours' mean: 1 is Eq. (8) as printed, 0 is local


class Interaction(Section, frozen=True):
    """How the feature interaction model V of the paper's schedule and of the baseline is learnt."""

    alpha: Positive = 0.05  # the learning rate
    batch: Count = 1  # paper's schedule: number of gradients in one secure sum


class Neighbours(Section, frozen=True):
    """Who learns with whom in the paper's schedule."""

    # random is drawn anew for each record, fixed once
    kind: Literal["nearest", "alike", "random", "fixed"] = "nearest"
    # N, the number of neighbours
    count: Annotated[int, _between(1, 2**31 - 1, words="at least 1 and below 2^31", symbol="N")] = 30
    alike: str | None = None  # alike: column of places that names their town, in words such as "Paris, France"
    among: int | None = None  # nearest: draw the neighbours at random from so many of the closest
    # weights of neighbours in their mean (decisions/0001)
    weights: Literal["uniform", "metropolis", "exponential", "gaussian", "inverse", "ones-diverges"] = "uniform"
    scale_km: Positive = 2.0  # scale of weights by distance


class Participation(Section, frozen=True):
    """Which devices take part in an iteration."""

    # share of the devices that is online
    online: Annotated[float, Limit(lambda share: 0 < share <= 1, "above 0 and at most 1")] = 1.0
    # rounds: share of those online that drops out during the round
    dropout: Annotated[float, Limit(lambda share: 0 <= share < 1, "at least 0 and below 1")] = 0.0


class Sums(Section, frozen=True):
    """How sums over devices are protected, see docs/decisions/0011-mask-graph.md and 0027-two-operators.md."""

    # 1: double masks, noise from devices. 2: two operators, who add it; a deployment has as many as it was founded with
    operators: Annotated[int, _between(1, 2, words="1 or 2")] = 1
    # rounds with one operator: share of a roster that may drop out; if more do, the sum is not opened
    lost: Annotated[float, _thousandths(below=500, words="1/2")] = 0.2
    # rounds with one operator: share of a roster that may collude with the server
    corrupt: Annotated[float, _thousandths(below=334, words="1/3")] = 0.05
    # deployments: the share of a campaign's people that must be on the roster of a sum
    roster: Annotated[float, Limit(lambda share: 0 < share <= 1, "above 0 and at most 1")] = 0.5


class Ring(Section, frozen=True):
    """Fixed point, see sharing/fixed_point.py."""

    bits: Annotated[int, Limit(lambda bits: bits in (32, 64), "32 or 64")] = 64  # sums are taken modulo 2^bits
    # binary digits after the point; with a budget the plan sets them
    fraction_bits: Annotated[int, _between(1, 40)] = 24
    bound: Positive = 1000.0  # paper's schedule: the largest entry that may be summed


class Stopping(Section, frozen=True):
    """Early stopping, in simulation only: it looks at a part of everyone's training records."""

    # stop after so many iterations without a lower loss; 0 is off
    patience: Annotated[int, Limit(lambda n: n >= 0, "at least 0")] = 0
    share: InnerShare = 0.1  # share of the training records that the loss is measured on


class Settings(Section, frozen=True):
    """All that decides a run, apart from the data."""

    preset: PresetName = "rounds"  # where all other settings start from
    schedule: Literal["rounds", "samples", "centralised"] = "rounds"  # samples: Algorithm 2; centralised: FM
    iterations: Count = 20  # number of rounds, or of passes over all records (the paper's T)
    order: Literal["shuffled", "windows"] = "shuffled"  # paper's schedule: windows is faster (decisions/0007)
    # determines every random draw of a simulation
    seed: Annotated[int, _between(0, 2**63 - 1, words="between 0 and 2^63 - 1")] = 0
    floor: Count = 100  # fewest people over whom a sum may be opened
    data: Data = Data()
    features: Features = Features()
    popularity: Popularity = Popularity()
    privacy: Privacy = Privacy()
    model: Model = Model()
    linear: Linear = Linear()
    interaction: Interaction = Interaction()
    neighbours: Neighbours = Neighbours()
    participation: Participation = Participation()
    sums: Sums = Sums()
    ring: Ring = Ring()
    stopping: Stopping = Stopping()


PAPER = Settings(
    preset="paper",
    schedule="samples",
    iterations=10,
    features=Features(own_history=False, areas=0),
    model=Model(lambda_w=1e-4, lambda_v=1e-4),
    linear=Linear(alpha=0.05),
    interaction=Interaction(alpha=0.01),
)
ROUNDS = Settings()
PRIVATE = Settings(
    preset="private",
    popularity=Popularity(mechanism="secure-sum"),
    privacy=Privacy(epsilon_per_user=1.0),
)
FM = Settings(
    preset="fm",
    schedule="centralised",
    iterations=10,
    model=Model(lambda_w=1e-5, lambda_v=1e-5),
    linear=Linear(alpha=0.002),
    interaction=Interaction(alpha=0.002),
)


def preset(name: str) -> Settings:
    """The settings of one of the four presets."""
    known = {"paper": PAPER, "rounds": ROUNDS, "private": PRIVATE, "fm": FM}
    if name not in known:
        raise UsageError(f"no preset is called '{name}'; {suggest(name, known)}")
    return known[name]


# Checks: each setting against its own limit, then what must hold between settings.


def check(settings: Settings) -> Settings:
    """The settings themselves, if every limit and every rule between settings holds."""
    for name, limit in limits().items():
        value = attrgetter(name)(settings)
        if value is not None and not limit.holds(value):
            raise UsageError(limit.problem(name))
    for holds, error, words in rules(settings):
        if not holds:
            raise error(words)
    return settings


@cache
def limits() -> dict[str, Limit]:
    """The limit of every setting that has one, by the setting's name ("model.dimension")."""
    return {name: limit for name, hint in type_hints().items() for limit in get_args(hint) if isinstance(limit, Limit)}


@cache
def type_hints() -> dict[str, Any]:
    """The annotated type of every setting, by the setting's name."""
    hints = get_type_hints(Settings, include_extras=True)
    inner = {name: get_type_hints(kind, include_extras=True) for name, kind in hints.items() if _is_section(kind)}
    top = {name: kind for name, kind in hints.items() if name not in inner}
    return top | {f"{section}.{name}": kind for section, fields in inner.items() for name, kind in fields.items()}


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def rules(s: Settings) -> list[tuple[bool, type[PrirecError], str]]:
    """What must hold between settings: whether it does, the error if not, and its words.

    UsageError where no engine could run such settings; PolicyError where they would break a promise to people.
    """
    return [
        *((holds, UsageError, words) for holds, words in _usable(s)),
        *((holds, PolicyError, words) for holds, words in _promised(s)),
    ]


def _usable(s: Settings) -> list[tuple[bool, str]]:
    """What every engine needs."""
    rounds, parts = s.schedule == "rounds", (s.privacy.popularity, s.privacy.moments, s.privacy.interaction)
    return [
        (
            len({part is None for part in parts}) == 1,
            "privacy.popularity, privacy.moments and privacy.interaction belong together: give all three, or none",
        ),
        (
            s.neighbours.kind != "random" or s.neighbours.weights == "uniform",
            "neighbours.kind 'random' draws anew for each interaction and has uniform weights only",
        ),
        (
            (s.neighbours.kind == "alike") == (s.neighbours.alike is not None),
            "neighbours.kind 'alike' and neighbours.alike, a column of places, need each other",
        ),
        (
            s.neighbours.among is None or s.neighbours.among >= s.neighbours.count,
            "neighbours.among must be at least neighbours.count",
        ),
        (
            s.popularity.cap is None or not s.features.averages,
            "popularity.cap counts places alone: leave it out, or features.averages",
        ),
        (len(set(s.features.averages)) == len(s.features.averages), "features.averages names a column twice"),
        (s.sums.corrupt + 2 * s.sums.lost < 1, "sums.corrupt + 2 sums.lost must be below 1, or no sum can be safe"),
        (
            s.sums.operators == 1 or s.ring.bits == 64,
            "sums.operators 2 takes sums in a field of 64 bits: leave ring.bits at 64",
        ),
        (
            s.sums.operators == 1 or s.privacy.epsilon_per_user is not None,
            "sums.operators 2 is for sums with noise: give privacy.epsilon_per_user, or use the preset 'private'",
        ),
        (
            rounds or s.participation.dropout == 0,
            "the paper's schedule cannot lose a device on the way (its shares are n-out-of-n); use rounds",
        ),
    ]


def _promised(s: Settings) -> list[tuple[bool, str]]:
    """What a promised epsilon needs, what needs one, and how many people an opened sum holds."""
    rounds, dynamic = s.schedule == "rounds", s.features.dynamic
    promised, mechanism = s.privacy.epsilon_per_user is not None, s.popularity.mechanism
    policy = POLICIES.get(mechanism, MechanismPolicy())
    needed = (s.privacy.popularity != 0 or not dynamic, s.privacy.moments != 0, s.privacy.interaction != 0)
    return [
        (
            promised or s.preset != "private",
            "the preset 'private' promises one budget for each person: give privacy.epsilon_per_user",
        ),
        (
            promised or not policy.budgeted,
            f"popularity.mechanism '{mechanism}' needs a budget: give privacy.epsilon_per_user, or use 'private'",
        ),
        (
            not promised or rounds,
            "privacy.epsilon_per_user is for rounds: what the paper's schedule tells of a person has no bound",
        ),
        (
            not promised or policy.budgeted or not dynamic,
            f"with privacy.epsilon_per_user popularity comes by {_mechanisms(budgeted=True)}: '{mechanism}' is not "
            "within that budget",
        ),
        (
            not promised or s.stopping.patience == 0,
            "early stopping looks at everyone's records, which no budget covers: set stopping.patience to 0",
        ),
        (not promised or all(needed), "popularity, moments and interaction each need a part of the privacy budget"),
        # An opened sum over few people says something about each of them.
        (
            not rounds or s.floor >= HARD_FLOOR,
            f"floor must be at least {HARD_FLOOR}: a sum over fewer people can be taken apart",
        ),
    ]


def budget_parts(settings: Settings) -> dict[str, float]:
    """The parts of the budget by name, of settings that name them; without dynamic features nothing is spent on
    popularity."""
    p = settings.privacy
    popularity = p.popularity if settings.features.dynamic else 0.0
    return {
        "popularity": popularity or 0.0, "moments": p.moments or 0.0, "interaction": p.interaction or 0.0,
        "quality": p.quality,
    }  # fmt: skip


# Settings that a training would not read: whoever changes one of them had something else in mind, so it is refused.


class Reader(NamedTuple):
    """A part of a training that reads a setting, and whether settings have that part."""

    name: str
    used: Callable[[Settings], bool]


IN_ROUNDS = Reader("rounds", lambda s: s.schedule == "rounds")
UNDER_MASKS = Reader("rounds with sums.operators 1", lambda s: IN_ROUNDS.used(s) and s.sums.operators == 1)
IN_SAMPLES = Reader("the paper's schedule", lambda s: s.schedule == "samples")
DECENTRALISED = Reader("rounds and the paper's schedule", lambda s: s.schedule != "centralised")
FACTORIZATION = Reader("the paper's schedule and the baseline", lambda s: s.schedule != "rounds")
NEAREST = Reader(
    "neighbours.kind 'nearest' in the paper's schedule",
    lambda s: IN_SAMPLES.used(s) and s.neighbours.kind == "nearest",
)
BY_DISTANCE = Reader(
    "neighbours.weights by distance", lambda s: s.neighbours.weights in ("exponential", "gaussian", "inverse")
)
BUDGET = Reader("a budget (privacy.epsilon_per_user)", lambda s: s.privacy.epsilon_per_user is not None)
SECURE_SUM, ANSWERS = (  # a mechanism of one's own may read what it likes
    Reader(
        f"{name} (popularity.mechanism)",
        lambda s, name=name: s.popularity.mechanism in (name, *REGISTERED_MECHANISMS),  # type: ignore[misc]
    )
    for name in ("secure-sum", "randomized-response")
)
DEPLOYMENT = Reader("a deployment", lambda s: False)
PATIENCE = Reader("early stopping (stopping.patience)", lambda s: s.stopping.patience > 0)

# Settings that are not listed are read by every training.
READ_BY: dict[str, Reader] = {
    "order": IN_SAMPLES, "interaction.batch": IN_SAMPLES, "linear.gamma": IN_SAMPLES,
    "model.dimension": FACTORIZATION, "model.lambda_w": FACTORIZATION, "model.lambda_v": FACTORIZATION,
    "model.spread": FACTORIZATION, "linear.alpha": FACTORIZATION, "interaction.alpha": FACTORIZATION,
    "neighbours.kind": IN_SAMPLES, "neighbours.count": IN_SAMPLES, "neighbours.weights": IN_SAMPLES,
    "neighbours.alike": IN_SAMPLES, "neighbours.among": NEAREST, "neighbours.scale_km": BY_DISTANCE,
    "participation.online": DECENTRALISED, "sums.corrupt": UNDER_MASKS, "sums.lost": UNDER_MASKS,
    "sums.operators": BUDGET, "sums.roster": DEPLOYMENT,
    "ring.bits": DECENTRALISED, "ring.fraction_bits": DECENTRALISED, "ring.bound": IN_SAMPLES,
    "privacy.delta": BUDGET, "privacy.period_days": BUDGET, "privacy.popularity": BUDGET, "privacy.moments": BUDGET,
    "privacy.interaction": BUDGET, "privacy.quality": BUDGET,
    "popularity.cap": SECURE_SUM, "popularity.epsilon_per_bit": ANSWERS, "popularity.reporters": ANSWERS,
    "stopping.share": PATIENCE,
}  # fmt: skip


def refuse_unused(settings: Settings) -> None:
    """UsageError for a setting that differs from its preset and that no part of this training reads."""
    for name in changed(settings, since=preset(settings.preset)):
        reader = READ_BY.get(name)
        if reader is not None and not reader.used(settings):
            raise UsageError(f"{name} is read by {reader.name} alone, which this training has not; leave it as it was")


# Settings from and to TOML. Unknown keys are refused, with the nearest known name.


_LONGEST = 65_536  # characters: settings arrive over the network too, inside a campaign's charter
# Settings of earlier versions, which files still hold: the values at which such a setting changed nothing, and what to
# do about any other. At one of these it is ignored; any other value asks for something that this version cannot do, and
# is refused.
_NO_COHORTS = "models are not mixed in cohorts any more (decisions/0025); remove the setting"
_NO_LATENT = "there is no latent part any more (decisions/0016); remove the section"
_OLD_PARTS = {"popularity": 0.7, "mixing": 0.15, "interaction": 0.15}  # of privacy, as every file had them
REMOVED: dict[str, tuple[tuple[Any, ...], str]] = {
    "privacy.local": (
        (0.0,),
        "devices give no local answers any more; remove the setting, and noisy sums have all of "
        "privacy.epsilon_per_user",
    ),
    "features.own_visits": (
        (False,),
        "its distance is one of the features of features.own_history; set that to true instead",
    ),
    "linear.mixing": (("adaptive", "fixed"), _NO_COHORTS),
    "linear.kappa": ((50.0,), _NO_COHORTS),
    "linear.clip": ((3.0, 1.0), _NO_COHORTS),
    "interaction.clip": ((2.0, 0.2), "the length of a contribution is part of the plan; remove the setting"),
    "neighbours.size": ((200, 0), _NO_COHORTS),
    "neighbours.resolution": ((6,), _NO_COHORTS),
    "privacy.mixing": ((), "its place has privacy.moments; remove all parts, and the plan chooses them"),
    "latent": (({}, {"dimension": 0}), _NO_LATENT),
}


def load(path: Path | None = None, *, changes: Mapping[str, Any] | None = None, base: str = "private") -> Settings:
    """The preset that the file or `base` names, changed by the file, then by `changes` ("model.dimension" -> 8)."""
    table = {} if path is None else _read(path)
    given = _nested(changes or {})
    name = given.get("preset", table.get("preset", base))
    return check(apply(apply(preset(str(name)), table), given))


def settings(
    preset: PresetName | None = None,
    changes: Mapping[str, Any] | None = None,
    *,
    file: Path | str | None = None,
    **named: Any,
) -> Settings:
    """Settings from a preset ("private" by default, "rounds", "paper" or "fm"), changed by name.

    Changes are keywords, `iterations=20` or a section, `features={"areas": 12}`; or a mapping of dotted names,
    {"features.areas": 12}. `file` is a settings file (TOML), which is read before changes. Unknown names, values out of
    range, settings that such a training would not read, and combinations that break a promise are refused.
    """
    by_name: dict[str, Any] = {} if preset is None else {"preset": preset}
    for key, value in (*flat(changes or {}), *flat(named)):
        if key in by_name:
            raise UsageError(f"the setting '{key}' is given twice")
        by_name[key] = value
    chosen = load(None if file is None else Path(file), changes=by_name)
    refuse_unused(chosen)
    return chosen


def settings_of(given: Settings | PresetName | None) -> Settings:
    if given is None or isinstance(given, str):
        return settings(given)
    if isinstance(given, Settings):
        return given
    raise UsageError(f"settings come from prirec.settings(...) or are a preset's name, not {type(given).__name__}")


def loads(text: str) -> Settings:
    """Settings from the text that `dump` wrote: a saved run's or a charter's."""
    if len(text) > _LONGEST:
        raise UsageError(f"settings are at most {_LONGEST} characters of text")
    try:
        table = tomllib.loads(text)
    except NOT_TOML:
        raise UsageError("these settings are not TOML") from None
    return check(apply(preset(str(table.get("preset"))), table))


def apply(settings: Settings, table: Mapping[str, Any]) -> Settings:
    """Settings changed by a nested table; UsageError for a key or a type that does not fit. Limits are not checked."""
    table = _without_removed(table)
    _refuse_unknown(table, settings, "")
    _refuse_huge(table)
    merged = _merge(msgspec.to_builtins(settings), table)
    section = merged["popularity"]
    own = section["mechanism"] if isinstance(section, dict) and section["mechanism"] in REGISTERED_MECHANISMS else None
    if own is not None:  # checked under another name: the types of settings list PriRec's own mechanisms alone
        merged["popularity"] = {**section, "mechanism": "plain"}
    try:
        found = msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(_in_words(str(error))) from None
    if own is None:
        return found
    return msgspec.structs.replace(found, popularity=msgspec.structs.replace(found.popularity, mechanism=own))


def _without_removed(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without settings of earlier versions; UsageError where one of them asks for something."""
    left = {name: dict(value) if isinstance(value, Mapping) else value for name, value in table.items()}
    parts = left.get("privacy")
    if isinstance(parts, dict) and _OLD_PARTS.items() <= parts.items():
        left["privacy"] = {name: value for name, value in parts.items() if name not in _OLD_PARTS}
    for name, (harmless, advice) in REMOVED.items():
        section, _, key = name.partition(".")
        inner = left.get(section) if key else left
        if isinstance(inner, dict) and (key or section) in inner and inner.pop(key or section) not in harmless:
            raise UsageError(f"{name} is a setting of an earlier version: {advice}")
    return left


TAKES = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word", "array": "a list"}


def _in_words(error: str) -> str:
    """msgspec's complaint in the form that all refusals have, with the setting's own name and, where there are only a
    few, what it may be."""
    problem, _, place = error.partition(" - at ")
    name = place.strip("`").removeprefix("$.")
    allowed = [word for word in get_args(type_hints().get(name)) if isinstance(word, str)]
    if word := re.match("Invalid enum value (.*)", problem):
        why = (
            f". {DIVERGES}; to watch it, say ones-diverges"
            if word[1] == "'ones'" and "ones-diverges" in allowed
            else ""
        )
        return f"{name}: {word[1]} is not one of {', '.join(allowed)}{why}"
    wanted = re.match("Expected `([a-z]+)", problem)
    kind = TAKES.get(wanted[1]) if wanted else None
    if kind is None:
        return f"{name}: {problem}"
    return f"{name} takes {kind}" + (f": {', '.join(allowed)}" if allowed else "")


def dump(settings: Settings) -> str:
    """TOML that `load` reads back to the same settings."""
    return "\n".join(_lines(written(settings))) + "\n"


def written(settings: Settings) -> dict[str, Any]:
    """The table that is saved and hashed. A setting that came later is left out at its default, so that what was hashed
    without it keeps its hash."""
    table: dict[str, Any] = msgspec.to_builtins(settings)
    if settings.sums.operators == 1:
        del table["sums"]["operators"]
    return table


def changed(settings: Settings, *, since: Settings | None = None) -> dict[str, Any]:
    """Settings that differ from `since` (None: from the defaults), by name. A setting that a later version adds is not
    among them while it has its default value."""
    before = dict(flat(msgspec.to_builtins(Settings() if since is None else since)))
    return {name: value for name, value in flat(msgspec.to_builtins(settings)) if value != before[name]}


def flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings of nested sections by dotted names: ("features.areas", 12)."""
    for name, value in sorted(table.items()):
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except FileNotFoundError:
        raise UsageError(f"there is no settings file {path}") from None
    except OSError as error:
        raise UsageError(f"the settings file {path} cannot be read: {error.strerror}") from None
    except NOT_TOML as error:
        raise DataError(f"not a TOML file: {error}", file=path) from None


def _nested(changes: Mapping[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for key, value in changes.items():
        *path, last = key.split(".")
        inner = table
        for step in path:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise UsageError(f"'{key}' contradicts another change: give each setting once")
        inner[last] = value
    return table


def _refuse_unknown(table: Mapping[str, Any], section: Section, prefix: str) -> None:
    known = section.__struct_fields__
    for key, value in table.items():
        name = prefix + key
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean '{prefix}{near[0]}'?" if near else f"known here: {', '.join(known)}"
            raise UsageError(f"unknown setting '{name}'; {hint}")
        inner = getattr(section, key)
        if isinstance(inner, Section):
            if not isinstance(value, Mapping):
                raise UsageError(f"'{name}' is a section: write [{name}] and its settings below")
            _refuse_unknown(value, inner, f"{name}.")
        elif isinstance(value, Mapping):
            raise UsageError(f"'{name}' is a single setting, not a section")


def _refuse_huge(table: Mapping[str, Any]) -> None:
    """TOML has whole numbers of any size: one beyond 64 bits would overflow where it is compared with a float."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            _refuse_huge(value)
        elif isinstance(value, int) and abs(value) > 2**64:
            raise UsageError(f"{key}: a whole number has at most 64 bits")


def _merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        merged[key] = _merge(below[key], value) if isinstance(value, Mapping) else value
    return merged


def _lines(table: Mapping[str, Any]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    yield from (f"{key} = {_literal(value)}" for key, value in plain.items() if value is not None)
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from ("", f"[{key}]", *_lines(value))


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
