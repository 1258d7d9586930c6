"""What the product answers to vectors of features, records and places not visited."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import numpy as np

from prirec import config
from prirec.device.person import Person, Visit
from prirec.device.records import draw_negatives, encode_profile, encode_records
from prirec.features.encoding import Hashed, from_json
from prirec.features.popularity import OwnCounts, Scale
from prirec.privacy.popularity_estimate import CityAverage
from prirec.wire.campaign import Basis, read_encoding
from prirec.wire.documents import Edition, Offer
from prirec.wire.regions import AverageKnown, KnownPlaces, PlacePopularity


def value(given: list[Any]) -> Any:
    kind, told = given
    return float(told) if kind == "number" else told if kind == "word" else tuple(told)


def values(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value(told) for name, told in given.items()}


def reals(texts: Any) -> np.ndarray:
    return np.array(texts, dtype=np.float64)


def points(texts: list[list[str]]) -> np.ndarray:
    return np.array(texts, dtype=np.float64).reshape(len(texts), 2)


def person(i: dict[str, Any]) -> np.ndarray:
    me = SimpleNamespace(profile=lambda: values(i["profile"]))
    home = np.full(2, np.nan) if i["home"] is None else reals(i["home"])
    return encode_profile(cast(Person, me), from_json(i["encoding"].encode()), home)


def encoding(i: dict[str, Any]) -> list[int]:
    found = read_encoding(bytes.fromhex(i["data"]))
    return [len(blocks) for blocks in (found.person, found.place, found.popularity, found.context, found.averages)]


def own_counts(i: dict[str, Any]) -> OwnCounts | None:
    """What the device has added to the sum of visits, by position."""
    if "added" not in i:
        return None
    rows, said = i["known"]["rows"], i["known"].get("sums", {})
    at = {int(row): position for position, row in enumerate(rows)}
    averages = len(said.get("averages", ()))
    for which in range(averages):
        at |= {int(row) + (1 + which) * int(said["many"]): place + (1 + which) * len(rows) for place, row in
               enumerate(rows)}  # fmt: skip
    mine = sorted((at[int(entry)], float(much)) for entry, much in i["added"] if int(entry) in at)
    return OwnCounts(
        len(rows) * (1 + averages), np.array([one for one, _ in mine], dtype=np.int64),
        np.array([much for _, much in mine]),
    )  # fmt: skip


def known_places(i: dict[str, Any], *, popularity: tuple[str, ...]) -> KnownPlaces:
    many = len(i["ids"])
    zeros, said = np.zeros(many), i.get("sums", {})
    sums = (reals(said[name]) if said else zeros for name in ("opened", "predicted", "weight"))
    noise = float(said.get("sigma", 1.0)), float(said.get("shape", 0.0))
    averages = said.get("averages", ())
    popular = PlacePopularity(
        popularity, reals(i["released"]).reshape(many, -1), *sums, *noise,
        np.array([reals(one["opened"]) for one in averages]).reshape(-1, many).T,
        tuple(
            AverageKnown(
                one["column"], Scale(float(one["low"]), float(one["high"])),
                CityAverage(float(one["middle"]), float(one["spread"])),
            )
            for one in averages
        ),
    )  # fmt: skip
    return KnownPlaces(
        cells=(0,), ids=tuple(i["ids"]), words=("",) * many, rows=np.array(i["rows"], dtype=np.int32),
        location=points(i["location"]), features=np.array(i["features"], dtype=np.float32),
        region=np.zeros(many, dtype=np.int32), popular=popular,
    )  # fmt: skip


class Told:
    """A person, without a device's file."""

    def __init__(self, i: dict[str, Any]) -> None:
        self._i = i

    def require_membership(self) -> Any:
        return SimpleNamespace(secret=bytes.fromhex(self._i["secret"]))

    def labelled(self) -> bool:
        return self._i["labelled"] == "1"

    def profile(self) -> dict[str, Any]:
        return values(self._i["profile"])

    def home(self) -> Any:
        return None if self._i["home"] is None else tuple(map(float, self._i["home"]))

    def visits(self) -> tuple[Visit, ...]:
        return tuple(
            Visit(place, None if time is None else int(time), int(label), values(context), name)
            for name, place, time, label, context in self._i["visits"]
        )


def records(i: dict[str, Any]) -> dict[str, Any]:
    rules = i["rules"]
    settings = config.load(
        changes={
            "data.ratio": int(rules["ratio"]),
            "data.negatives": rules["negatives"],
            "data.split": "time" if rules["only_earlier"] == "1" else "record",
        }
    )
    text = i["encoding"].encode()
    blocks = from_json(text)
    offer = Offer(1, bytes(16), text, bytes(32), len(i["known"]["ids"]))
    basis = Basis(offer, settings, Edition(bytes(32), text, bytes(32), 0.0, 1.0))
    known = known_places(i["known"], popularity=tuple(block.column for block in blocks.popularity))
    with patch("prirec.device.records._own_popularity", lambda *_: own_counts(i)):  # a campaign's journal has it
        found = encode_records(cast(Person, Told(i)), basis, known)
    return {name: getattr(found, name) for name in ("person", "place", "context", "label", "places", "unknown")}


def negatives(i: dict[str, Any]) -> list[list[int]]:
    visits = [name for name, _ in i["visits"]]
    of, chosen = draw_negatives(
        visits, np.array([place for _, place in i["visits"]], dtype=np.int32),
        rows=np.array(i["rows"], dtype=np.int32), location=points(i["location"]), among=i["among"],
        ratio=int(i["ratio"]), secret=bytes.fromhex(i["secret"]),
    )  # fmt: skip
    return [chosen[of == at].tolist() for at in range(len(visits))]


def word_bucket(i: dict[str, Any]) -> int:
    return Hashed(column=i["column"], buckets=int(i["buckets"])).bucket(i["word"])


OPERATIONS = {
    "person": person,
    "read_encoding": encoding,
    "records": records,
    "negatives": negatives,
    "word_bucket": word_bucket,
}
