"""What the product answers to vectors of contributions."""

from typing import Any, cast

import numpy as np

from prirec import config
from prirec.device.person import Person
from prirec.device.quality import measured
from prirec.device.records import encode_records, held_out, recorded_values
from prirec.features.encoding import Range
from prirec.features.popularity import OwnCounts, Scale, own_means
from prirec.privacy.norm import Norm, clipped
from prirec.privacy.popularity_estimate import POPULARITY, CityAverage, own_average
from prirec.privacy.quality_figures import contribution
from prirec.privacy.weighted_popularity import NoisySums, stacked, weighted
from prirec.protocols.terms import RingCode, RoundCodes
from prirec.rounds.definition import RoundRules
from prirec.sharing.fixed_point import FixedPoint
from prirec.wire.regions import PlacePopularity
from vectors.operations_features import Told, known_places
from vectors.operations_model import public_half


def visits(i: dict[str, Any]) -> np.ndarray:
    values = [np.ones(int(i["places"])), *(np.array(one, dtype=np.float64) for one in i["means"])]
    parts = {f"{at}": OwnCounts(2000, np.arange(len(one)), one) for at, one in enumerate(values)}
    norm = Norm(float(i["sensitivity"]), int(i["fraction_bits"]))
    return clipped(stacked(list(weighted(parts).values())).counts, norm)


def means(i: dict[str, Any]) -> list[list[Any]]:
    block = Range(column=i["column"], low=float(i["low"]), high=float(i["high"]))
    known, visits = known_places(i["known"], popularity=("weighted popularity",)), cast(Person, Told(i)).visits()
    found = own_means(recorded_values(visits, (block,), known), block.column, Scale(block.low, block.high), places=1000)
    at = np.searchsorted(known.rows, found.pairs)
    return [list(one) for one in zip(at.tolist(), found.counts.tolist(), strict=True)]


def average_of_others(i: dict[str, Any]) -> float:
    """The part of the average that is this device's own."""
    named = {name: np.array([float(i[name])]) for name in ("opened", "released", "visitors", "own_visitors", "added")}
    here = np.zeros(1, dtype=np.int64)
    values = NoisySums(named["opened"], float(i["sigma"]), OwnCounts(1, here, named["added"]))
    city, scale = CityAverage(float(i["middle"]), float(i["spread"])), Scale(float(i["low"]), float(i["high"]))
    visitors = OwnCounts(1, here, named["own_visitors"])
    return float(own_average(city, named["visitors"], visitors, values, scale, named["released"]).counts[0])


def rules(i: dict[str, Any], columns: Any) -> RoundRules:
    ring = FixedPoint(summands=100, bound=1000.0, fraction_bits=int(i["fraction_bits"]))
    code = RingCode(ring, float(i["clip"]), int(i["most"]))
    return RoundRules(config.load(), columns, RoundCodes(code, code))


def moments(i: dict[str, Any]) -> np.ndarray:
    of = public_half(i)
    records = encode_records(cast(Person, Told(i)), of.basis, of.known)
    round_rules = rules(i, of.basis.columns)
    mine = round_rules.moment_contributions(
        records.person[None], records.context, records.label, records.offsets
    )  # fmt: skip
    return round_rules.codes.moments.write(mine[0]).view(np.int64)


def gradient(i: dict[str, Any]) -> np.ndarray:
    of = public_half(i)
    records = encode_records(cast(Person, Told(i)), of.basis, of.known)
    own, places = records.scaled(of.basis.columns, of.moments)
    return rules(i, of.basis.columns).contribution(own, places, of.model)[0].view(np.int64)


def quality(i: dict[str, Any]) -> np.ndarray:
    labels, scores = np.array(i["labels"], dtype=np.int8), np.array(i["scores"], dtype=np.float64)
    hit = None if i["hit"] is None else i["hit"] == "1"
    return contribution(labels, scores, hit=hit, norm=Norm(1.0, int(i["fraction_bits"])))


def measured_part(i: dict[str, Any]) -> list[Any]:
    found = measured(cast(Person, Told(i)), public_half(i), share=int(i["share"]))
    return [found.labels.tolist(), found.scores, None if found.hit is None else int(found.hit)]


def own_popularity(i: dict[str, Any]) -> float:
    named = {name: np.array([float(i[name])]) for name in ("released", "opened", "predicted", "weight", "added")}
    sigma, shape = float(i["sigma"]), float(i["shape"])
    popular = PlacePopularity(
        (POPULARITY,), named["released"][:, None], named["opened"], named["predicted"], named["weight"], sigma, shape,
        np.empty((1, 0)),
    )  # fmt: skip
    seen = popular.seen_with(OwnCounts(1, np.zeros(1, dtype=np.int64), named["added"]))
    return float(seen.own[POPULARITY].counts[0])


OPERATIONS = {
    "own_part": own_popularity,
    "own_average": average_of_others,
    "own_means": means,
    "visits_contribution": visits,
    "moments_contribution": moments,
    "gradient_contribution": gradient,
    "quality_contribution": quality,
    "measured": measured_part,
    "held_out": lambda i: [int(one) for one in held_out(cast(Person, Told(i)), i["places"], share=int(i["share"]))],
}
