"""One validated settings object. A preset fills it, a TOML file and flags change it, and a run saves it whole."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from math import inf
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import msgspec

from prirec.errors import DataError, PolicyError, UsageError
from prirec.util.decode_errors import NOT_TOML

DIVERGES = (
    "S_if = 1 adds the neighbours' models up instead of averaging them: with N = 30 they grow thirtyfold a step, from "
    "0.01 past 10^11 in ten steps, and leave the ring (decisions/0001)"
)
PresetName = Literal["paper", "rounds", "private", "fm"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: immutable, and strict about its keys."""


class Data(Section, frozen=True):
    """Which records are learnt from, and which are kept for the test."""

    keep: Literal["paper", "visitors", "records", "all"] = "paper"  # paper: visitors without labels, records with
    at_least: int | None = None  # visitors a place (10), or records a person and a place (5)
    split: Literal["record", "time", "moment"] = "record"  # moment: what was shown together stays together
    train_share: float = 0.8
    negatives: Literal["uniform", "nearby"] = "uniform"
    ratio: int = 1  # negatives for each positive, where there are no labels
    thin: int | None = None  # with labels: at most so many ignored for each click of a session


class Features(Section, frozen=True):
    """What a sample X^ij is made of."""

    dynamic: bool = True  # POI popularity; without it PriRec becomes the paper's PriRec-
    own_left_out: bool = True  # a device learns from its visit with the popularity that others gave the place
    averages: tuple[str, ...] = ()  # numbers of visits, such as what was spent, that places have an average of
    context: bool = True  # distance from home, hour, day of the week, columns of the visits
    own_visits: bool = False  # distance from the nearest other place that the person has visited
    words: int = 30  # the most common words of a public column that get a feature each
    buckets: int = 8  # hashed features for a private column of words that nobody declared
    recent_days: int = 30


class Popularity(Section, frozen=True):
    """How the dynamic features leave devices."""

    mechanism: Literal["plain", "secure-sum", "randomized-response"] = "plain"  # plain: simulation only
    cap: int | None = None  # secure-sum: at most so many places a person, instead of a vector scaled to norm 1
    epsilon_per_bit: float = 1.0  # randomized-response: for each bit of a person; a place has 1, and 1 for each average
    reporters: Literal["everyone", "those-with-a-record"] = "everyone"  # or who reports gives the visit away


class MechanismPolicy(NamedTuple):
    """What a popularity mechanism may be combined with; the mechanisms themselves are in simulate/popularity.py."""

    budgeted: bool = False  # its noise is paid from privacy.epsilon_per_user, so that it needs one
    collected: bool = False  # devices of a deployment can run it


# By name; a mechanism that is not listed stays outside every budget, and inside simulations.
POLICIES: dict[str, MechanismPolicy] = {"secure-sum": MechanismPolicy(budgeted=True, collected=True)}


def mechanism_not_collected(mechanism: str) -> str | None:
    """Why no deployment may use this mechanism of popularity; None if it may."""
    if POLICIES.get(mechanism, MechanismPolicy()).collected:
        return None
    return f"popularity.mechanism: only {_mechanisms(collected=True)} is collected"


def _mechanisms(**wanted: bool) -> str:
    return " or ".join(f"'{name}'" for name, one in POLICIES.items() if wanted.items() <= one._asdict().items())


class Privacy(Section, frozen=True):
    """One budget for all that is computed from a person, and its parts, which are parts of the sum of 1/sigma^2."""

    epsilon_per_user: float | None = None  # none: nothing is promised and no noise is added, in simulation only
    delta: float = 1e-6
    period_days: int | None = None  # the budget holds for any so many days in a row; none: for life
    popularity: float = 0.70
    mixing: float = 0.15
    interaction: float = 0.15
    quality: float = 0.0


class Model(Section, frozen=True):
    """The factorization machine of Eq. (1) and the objective of Eq. (2)."""

    dimension: int = 5  # K
    lambda_w: float = 1e-3
    lambda_v: float = 1e-4
    spread: float = 0.05  # V starts from N(0, spread^2), W from 0


class Linear(Section, frozen=True):
    """How the linear models W are learnt."""

    alpha: float = 0.02
    mixing: Literal["adaptive", "fixed"] = "adaptive"
    kappa: float = 50.0  # adaptive: gamma_i = kappa / (kappa + n_i)
    gamma: float = 1.0  # fixed: 1 is Eq. (8) as printed, 0 is local learning only
    clip: float = 3.0  # rounds: the longest model that enters a sum


class Interaction(Section, frozen=True):
    """How the feature interaction model V is learnt."""

    alpha: float = 0.05
    batch: int = 1  # samples: gradients in one secure aggregation
    clip: float = 2.0  # rounds: the longest gradient that enters a sum


class Latent(Section, frozen=True):
    """A latent vector u_i on each device and public factors p_j of places: rounds without a budget, decisions/0016."""

    dimension: int = 0  # K'; 0 is off
    alpha: float = 0.05  # of u
    lambda_u: float = 0.025  # for each record, as is lambda_p
    lambda_p: float = 0.05
    pace: float = 0.2  # Adam's, of the factors
    spread: float = 0.2  # the factors start from N(0, spread^2), u from 0
    weight: float = 0.1  # of the factors' gradient beside that of V, with which it is clipped


class Neighbours(Section, frozen=True):
    """Who learns with whom."""

    kind: Literal["cohorts", "nearest", "alike", "random", "fixed"] = "cohorts"
    count: int = 30  # N, for all but cohorts
    alike: str | None = None  # alike: the column of places that says where, in words such as "Paris, France"
    among: int | None = None  # nearest: drawn at random from so many of the closest
    weights: Literal["uniform", "metropolis", "exponential", "gaussian", "inverse", "ones-diverges"] = "uniform"
    scale_km: float = 2.0  # for weights by distance
    size: int = 200  # the smallest cohort: twice the floor, since devices are lost; 0: as large as a budget's plan asks
    resolution: int = 6  # h3 resolution of the coarse cell that a device names


class Participation(Section, frozen=True):
    """Which devices take part in an iteration."""

    online: float = 1.0
    dropout: float = 0.0  # rounds: share of those online that is lost on the way


class Sums(Section, frozen=True):
    """How sums over devices are protected, see docs/decisions/0011-mask-graph.md."""

    lost: float = 0.2  # rounds: the share of a roster that may be lost before its sum is given up
    corrupt: float = 0.05  # the share of devices that may work for the server


class Ring(Section, frozen=True):
    """Fixed point, see sharing/fixed_point.py."""

    bits: int = 64
    fraction_bits: int = 24  # without a budget; with one, the plan says how finely a sum is written
    bound: float = 1000.0  # samples: the largest entry that may be summed


class Stopping(Section, frozen=True):
    """Early stopping, in simulation only: it looks at a part of everyone's training records."""

    patience: int = 0  # iterations without a lower loss; 0 is off
    share: float = 0.1


class Settings(Section, frozen=True):
    """All that decides a run, apart from the data."""

    preset: PresetName = "rounds"
    schedule: Literal["rounds", "samples", "centralised"] = "rounds"
    iterations: int = 60  # rounds, or the paper's T passes
    order: Literal["shuffled", "windows"] = "shuffled"  # samples: as in the paper, or neighbours together (faster)
    seed: int = 0
    floor: int = 100  # the fewest people that an opened sum may hold
    data: Data = Data()
    features: Features = Features()
    popularity: Popularity = Popularity()
    privacy: Privacy = Privacy()
    model: Model = Model()
    linear: Linear = Linear()
    interaction: Interaction = Interaction()
    latent: Latent = Latent()
    neighbours: Neighbours = Neighbours()
    participation: Participation = Participation()
    sums: Sums = Sums()
    ring: Ring = Ring()
    stopping: Stopping = Stopping()


PAPER = Settings(
    preset="paper",
    schedule="samples",
    iterations=10,
    model=Model(lambda_w=1e-4, lambda_v=1e-4),
    linear=Linear(alpha=0.05, mixing="fixed", gamma=1.0),
    interaction=Interaction(alpha=0.01),
    neighbours=Neighbours(kind="nearest"),
)
ROUNDS = Settings()
PRIVATE = Settings(
    preset="private",
    iterations=20,
    popularity=Popularity(mechanism="secure-sum"),
    privacy=Privacy(epsilon_per_user=1.0),
    linear=Linear(alpha=0.05, clip=1.0),
    interaction=Interaction(clip=0.2),
    neighbours=Neighbours(size=0),
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
    """The settings behind a name."""
    known = {"paper": PAPER, "rounds": ROUNDS, "private": PRIVATE, "fm": FM}
    if name not in known:
        raise UsageError(f"no preset is called '{name}'; there are paper, rounds, private and fm")
    return known[name]


# Limits on settings: each with the words for whoever oversteps it.


HARD_FLOOR = 50


def _per_mille(share: float, below: int) -> bool:
    """Terms, which everyone in a sum signs, hold whole numbers only."""
    return 0 <= 1000 * share < below and abs(1000 * share - round(1000 * share)) < 1e-9


def _limits(s: Settings) -> list[tuple[bool, str]]:
    """Every limit on a single number, with the words for whoever oversteps it."""
    return [
        (s.iterations >= 1, "iterations must be at least 1"),
        (0 <= s.seed < 2**63, "seed must be between 0 and 2^63 - 1"),
        (s.data.at_least is None or s.data.at_least >= 1, "data.at_least must be at least 1"),
        (0 < s.data.train_share < 1, "data.train_share must be between 0 and 1"),
        (1 <= s.data.ratio <= 1000, "data.ratio must be between 1 and 1000"),
        (s.data.thin is None or s.data.thin >= 1, "data.thin must be at least 1"),
        (0 <= s.features.words <= 65_536, "features.words must be between 0 and 65536"),
        (1 <= s.features.buckets <= 4096, "features.buckets must be between 1 and 4096"),
        (1 <= s.features.recent_days <= 36_500, "features.recent_days must be between 1 and 36500"),
        (s.popularity.cap is None or s.popularity.cap >= 1, "popularity.cap must be at least 1"),
        (0 < s.popularity.epsilon_per_bit < inf, "popularity.epsilon_per_bit must be positive and finite"),
        (
            s.privacy.epsilon_per_user is None or 0 < s.privacy.epsilon_per_user <= 50,
            "privacy.epsilon_per_user must be above 0 and at most 50; beyond that nothing is promised",
        ),
        (0 < s.privacy.delta < 1, "privacy.delta must be between 0 and 1"),
        (s.privacy.period_days is None or s.privacy.period_days >= 1, "privacy.period_days must be at least 1"),
        (
            all(0 <= part <= 1e6 for part in _parts(s)) and sum(_parts(s)) > 0,
            "the parts of the privacy budget must be between 0 and 1000000, and one of them above 0",
        ),
        (1 <= s.model.dimension <= 256, "model.dimension (K) must be between 1 and 256"),
        (0 <= s.model.lambda_w < inf, "model.lambda_w must be finite and not negative"),
        (0 <= s.model.lambda_v < inf, "model.lambda_v must be finite and not negative"),
        (0 < s.model.spread < inf, "model.spread must be positive and finite"),
        (0 < s.linear.alpha < inf, "linear.alpha must be positive and finite"),
        (0 < s.linear.kappa < inf, "linear.kappa must be positive and finite"),
        (0 <= s.linear.gamma <= 1, "linear.gamma must be between 0 and 1"),
        (0 < s.linear.clip < inf, "linear.clip must be positive and finite"),
        (0 < s.interaction.alpha < inf, "interaction.alpha must be positive and finite"),
        (s.interaction.batch >= 1, "interaction.batch must be at least 1"),
        (0 < s.interaction.clip < inf, "interaction.clip must be positive and finite"),
        (0 <= s.latent.dimension <= 256, "latent.dimension (K') must be between 0 and 256; 0 is off"),
        (0 < s.latent.alpha < inf, "latent.alpha must be positive and finite"),
        (0 <= s.latent.lambda_u < inf, "latent.lambda_u must be finite and not negative"),
        (0 <= s.latent.lambda_p < inf, "latent.lambda_p must be finite and not negative"),
        (0 < s.latent.pace < inf, "latent.pace must be positive and finite"),
        (0 < s.latent.spread < inf, "latent.spread must be positive and finite"),
        (0 < s.latent.weight < inf, "latent.weight must be positive and finite"),
        (1 <= s.neighbours.count < 2**31, "neighbours.count (N) must be at least 1 and below 2^31"),
        (
            s.neighbours.size == 0 or 2 <= s.neighbours.size < 2**31,
            "neighbours.size must be at least 2 and below 2^31, or 0 for what the plan asks",
        ),
        (s.floor >= 1, "floor must be at least 1"),
        (0 < s.neighbours.scale_km < inf, "neighbours.scale_km must be positive and finite"),
        (0 <= s.neighbours.resolution <= 9, "neighbours.resolution must be between 0 and 9"),
        (0 < s.participation.online <= 1, "participation.online must be above 0 and at most 1"),
        (0 <= s.participation.dropout < 1, "participation.dropout must be at least 0 and below 1"),
        (_per_mille(s.sums.lost, 500), "sums.lost must be in whole thousandths, at least 0 and below 1/2"),
        (_per_mille(s.sums.corrupt, 334), "sums.corrupt must be in whole thousandths, at least 0 and below 1/3"),
        (s.ring.bits in (32, 64), "ring.bits must be 32 or 64"),
        (1 <= s.ring.fraction_bits <= 40, "ring.fraction_bits must be between 1 and 40"),
        (0 < s.ring.bound < inf, "ring.bound must be positive and finite"),
        (s.stopping.patience >= 0, "stopping.patience must not be negative"),
        (0 < s.stopping.share < 1, "stopping.share must be between 0 and 1"),
    ]


def _fits(s: Settings) -> list[tuple[bool, str]]:
    """What must go together."""
    cohorts, rounds, one_place = s.neighbours.kind == "cohorts", s.schedule == "rounds", s.schedule == "centralised"
    return [
        (
            rounds == cohorts or one_place,
            "rounds mix within cohorts and samples with neighbours: set schedule and neighbours.kind to match",
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
            s.schedule != "samples" or s.linear.mixing == "fixed",
            "the paper's schedule has one linear.gamma for all: set linear.mixing to 'fixed'",
        ),
        (
            s.popularity.cap is None or not s.features.averages,
            "popularity.cap counts places alone: leave it out, or features.averages",
        ),
        (
            len(set(s.features.averages)) == len(s.features.averages),
            "features.averages names a column twice",
        ),
        (s.sums.corrupt + 2 * s.sums.lost < 1, "sums.corrupt + 2 sums.lost must be below 1, or no sum can be safe"),
        (
            rounds or s.participation.dropout == 0,
            "the paper's schedule cannot lose a device on the way (its shares are n-out-of-n); use rounds",
        ),
        (
            rounds or s.latent.dimension == 0,
            "latent vectors are learnt in rounds only: set schedule to 'rounds', or latent.dimension to 0",
        ),
    ]


def _parts(s: Settings) -> tuple[float, ...]:
    return s.privacy.popularity, s.privacy.mixing, s.privacy.interaction, s.privacy.quality


def budget_parts(settings: Settings) -> dict[str, float]:
    """The parts of the budget by name; without dynamic features nothing is spent on popularity."""
    p = settings.privacy
    popularity = p.popularity if settings.features.dynamic else 0.0
    return {"popularity": popularity, "mixing": p.mixing, "interaction": p.interaction, "quality": p.quality}


def _promises(s: Settings) -> list[tuple[bool, str]]:
    """What a promised epsilon needs, and what needs one."""
    promised, mechanism = s.privacy.epsilon_per_user is not None, s.popularity.mechanism
    policy = POLICIES.get(mechanism, MechanismPolicy())
    parts = {name: part for name, part in budget_parts(s).items() if name != "quality"}
    if not s.features.dynamic:
        del parts["popularity"]
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
            not promised or s.schedule == "rounds",
            "privacy.epsilon_per_user is for rounds: what the paper's schedule tells of a person has no bound",
        ),
        (
            not promised or policy.budgeted or not s.features.dynamic,
            f"with privacy.epsilon_per_user popularity comes by {_mechanisms(budgeted=True)}: '{mechanism}' is not "
            "within that budget",
        ),
        (
            not promised or s.stopping.patience == 0,
            "early stopping looks at everyone's records, which no budget covers: set stopping.patience to 0",
        ),
        (
            not promised or s.latent.dimension == 0,
            "learnt factors of places drown in a budget's noise and do harm (decisions/0016): set latent.dimension to "
            "0, or leave privacy.epsilon_per_user out, in simulation",
        ),
        (
            not promised or all(parts.values()),
            "popularity, mixing and interaction each need a part of the privacy budget",
        ),
        (
            promised or s.neighbours.size > 0,
            "neighbours.size 0 leaves cohorts to the plan of a budget: give privacy.epsilon_per_user, or a size",
        ),
    ]


def check(settings: Settings) -> Settings:
    """The settings themselves, if every limit, every promise and every floor holds."""
    for holds, words in _limits(settings) + _fits(settings):
        if not holds:
            raise UsageError(words)
    for holds, words in _promises(settings):
        if not holds:
            raise PolicyError(words)
    if settings.schedule == "rounds" and settings.floor < HARD_FLOOR:
        raise PolicyError(f"floor must be at least {HARD_FLOOR}: a sum over fewer people can be taken apart")
    if settings.schedule == "rounds" and 0 < settings.neighbours.size < settings.floor:
        raise PolicyError(
            f"neighbours.size is below the floor of {settings.floor} people for an opened sum; use larger cohorts"
        )
    return settings


# Settings from and to TOML. Unknown keys are refused, with the nearest known name.
#
# Settings that earlier versions had are in files, saved runs and charters. At the value that they had by default they
# change nothing and are ignored; any other value asks for something that this version cannot do, and is refused.


_LONGEST = 65_536
# settings of earlier versions, as section.name: the default, and what to do about any other value
GONE: dict[str, tuple[Any, str]] = {
    "privacy.local": (
        0.0,
        "devices give no local answers any more; remove the setting, and noisy sums have all of "
        "privacy.epsilon_per_user",
    ),
}


def load(path: Path | None = None, *, changes: Mapping[str, Any] | None = None, base: str = "private") -> Settings:
    """The preset that the file or `base` names, changed by the file, then by `changes` ("model.dimension" -> 8)."""
    table = {} if path is None else _read(path)
    given = _nested(changes or {})
    name = given.get("preset", table.get("preset", base))
    return check(apply(apply(preset(str(name)), table), given))


def loads(text: str) -> Settings:
    """Settings from the text that `dump` wrote."""
    if len(text) > _LONGEST:
        raise UsageError(f"settings are at most {_LONGEST} characters of text")
    try:
        table = tomllib.loads(text)
    except NOT_TOML:
        raise UsageError("these settings are not TOML") from None
    return check(apply(preset(str(table.get("preset"))), table))


def apply(settings: Settings, table: Mapping[str, Any]) -> Settings:
    """Settings changed by a nested table."""
    table = _without_gone(table)
    _refuse_unknown(table, settings, "")
    _refuse_huge(table)
    merged = _merge(msgspec.to_builtins(settings), table)
    try:
        return msgspec.convert(merged, Settings)
    except msgspec.ValidationError as error:
        raise UsageError(_in_words(str(error))) from None


def _without_gone(table: Mapping[str, Any]) -> dict[str, Any]:
    """The table without settings of earlier versions; UsageError where one of them is not at its default."""
    left = {name: dict(value) if isinstance(value, Mapping) else value for name, value in table.items()}
    for name, (default, advice) in GONE.items():
        section, _, key = name.partition(".")
        inner = left.get(section)
        if isinstance(inner, dict) and key in inner and inner.pop(key) != default:
            raise UsageError(f"{name} is a setting of an earlier version: {advice}")
    return left


def _in_words(error: str) -> str:
    """msgspec's complaint, with the setting's own name and, where there are only a few, what it may be."""
    problem, _, place = error.partition(" - at ")
    name = place.strip("`").removeprefix("$.")
    hint: Any = Settings
    for step in name.split("."):
        hint = get_type_hints(hint).get(step) if isinstance(hint, type) else None
    allowed = [str(word) for word in get_args(hint) if isinstance(word, str)]
    why = f". {DIVERGES}; to watch it, say ones-diverges" if "'ones'" in problem and "ones-diverges" in allowed else ""
    return f"{name}: {problem}" + (f"; it may be {', '.join(allowed)}{why}" if allowed else "")


def dump(settings: Settings) -> str:
    """TOML that `load` reads back to the same settings."""
    return "\n".join(_lines(written(settings))) + "\n"


def written(settings: Settings) -> dict[str, Any]:
    """What is written down of settings. An option that came later and was left alone is not: settings that say nothing
    of it are those from before it, with the same text and the same hash."""
    table: dict[str, Any] = msgspec.to_builtins(settings)
    if settings.latent == Latent():
        del table["latent"]
    return table


def changed(settings: Settings, *, since: Settings | None = None) -> dict[str, Any]:
    """By name, those that are not what they were, or what every setting is by default: a setting that is added later,
    and stands at its default, is not among them."""
    usual = dict(_flat(msgspec.to_builtins(Settings() if since is None else since)))
    return {name: value for name, value in _flat(msgspec.to_builtins(settings)) if value != usual[name]}


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in sorted(table.items()):
        if isinstance(value, Mapping):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
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
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean '{prefix}{near[0]}'?" if near else f"known here: {', '.join(known)}"
            raise UsageError(f"unknown setting '{prefix}{key}'; {hint}")
        inner = getattr(section, key)
        if isinstance(value, Mapping) and not isinstance(inner, Section):
            raise UsageError(f"'{prefix}{key}' is a single setting, not a section")
        if isinstance(inner, Section):
            if not isinstance(value, Mapping):
                raise UsageError(f"'{prefix}{key}' is a section: write [{prefix}{key}] and its settings below")
            _refuse_unknown(value, inner, f"{prefix}{key}.")


def _refuse_huge(table: Mapping[str, Any]) -> None:
    """A whole number beyond 64 bits means nothing here, and overflows where it meets a float."""
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
