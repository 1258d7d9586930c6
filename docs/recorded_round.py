"""Records the round that the auditor's page replays: a sum of visits over two operators, of a made-up town.

The parties are those of protocols/two_operators.py, with keys and noise from the operating system's entropy; what is
written are the bytes that crossed between them. Of the reports those of three people are kept whole: the others have
the same length, and what the helper is sent of them is in the batches. Of these three people stands there, too, what
only their device holds, and what each operator finds in its box.

    python docs/recorded_round.py
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from os import urandom
from pathlib import Path
from typing import Any

import numpy as np

from prirec.config import Settings, load
from prirec.data.dataset import Dataset
from prirec.data.prepare import Prepared, prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.engines.protocol import MemoryJournal, Wire
from prirec.features.columns import ModelSize
from prirec.features.popularity import OwnCounts
from prirec.privacy.plan import Kind, Release, plan_for
from prirec.privacy.weighted_popularity import weighted, written
from prirec.proofs import pine
from prirec.proofs.field import FieldArray, differences, elements_of
from prirec.proofs.pine import Report as Proven
from prirec.protocols.codec import encode
from prirec.protocols.messages import AnyMessage, Report, Round, Terms
from prirec.protocols.two_operators import ENTROPY, Device, Helper, JointTask, Leader, OperatorKeys, proof_of
from prirec.rehearsal.population import value_at
from prirec.sharing.keys import AgreementKey, SigningKey
from prirec.simulate.popularity import visitors
from prirec.simulate.setup import recipe
from prirec.types import OffsetArray
from prirec.util.keyed_random import generator

PAGE = Path(__file__).parents[1] / "web" / "pages" / "audit" / "static" / "round.json"
PEOPLE, PLACES, RECORDS, BATCH = 50, 24, 12, 25
WATCHED = 3
SETTINGS = {"sums.operators": 2, "floor": 50, "data.keep": "all"}


def town() -> tuple[Dataset, Prepared, Settings]:
    """People, places and visits, of which nobody exists."""
    plan = CityPlan(people=PEOPLE, places=PLACES, records=4 * RECORDS * PEOPLE, districts=4, categories=8, span_km=6.0)
    city, settings = make_city(plan, generator(0, "city")), load(changes=SETTINGS)
    return city, prepare(city, recipe(settings.data, labelled=city.labelled), generator(0, "data")), settings


def release_of_visits(settings: Settings, *, people: int, places: int) -> Release:
    """The norm and the noise of a sum of visits, as a plan for so many people has them."""
    return plan_for(settings, people=people, pois=places, size=ModelSize.assumed(30)).release(Kind.POPULARITY)


def visits_of(prepared: Prepared, release: Release) -> OffsetArray:
    """(I, J): everyone's vector of visits in whole numbers, no longer than the norm."""
    own: OwnCounts = written(weighted({"visitors": visitors(prepared)})["visitors"], release.norm)
    values = np.zeros((len(prepared.dataset.people), own.places), dtype=np.int64)
    values.flat[own.pairs] = own.counts.astype(np.int64)
    return values


def record() -> dict[str, Any]:
    """A whole round, message by message, and what it means to those who have a part in it."""
    city, prepared, settings = town()
    release = release_of_visits(settings, people=PEOPLE, places=PLACES)
    values, task, operators, people = visits_of(prepared, release), *_agreed(settings, release)
    crossed: list[AnyMessage] = []

    def noted(message: AnyMessage) -> tuple[int, ...]:
        crossed.append(message)
        return (0,)

    wire = Wire(noted)
    leader, helper = operators
    for operator in operators:
        wire.attach(operator, MemoryJournal())
        wire.do(operator, operator.begin())
    entropy = [Entropy() for _ in people]
    for identity, value, draw in zip(people, values, entropy, strict=True):
        device = Device(task, identity=identity, value=value.view(np.uint64), draw=draw)
        wire.attach(device, MemoryJournal())
        wire.do(device, device.report())
    wire.run_window(leader)
    if helper.name not in wire.finished:
        raise RuntimeError(f"the sum was not opened: {wire.refused} {wire.aborted}")

    rows = {identity.public: row for row, identity in enumerate(people)}
    watched = np.argsort([-np.count_nonzero(one) for one in values], kind="stable")[:WATCHED].tolist()
    return {
        "version": 1,
        "task": _text(encode(task.statement)),
        "places": [", ".join([name, *city.places.words(row)]) for row, name in enumerate(city.places.ids)],
        "noise": float(release.noise().variance) ** 0.5 / 2.0**release.norm.fraction_bits,
        "exact": values.sum(axis=0).tolist(),
        "messages": [_message(one, rows, watched) for one in crossed],
        "watched": [_watched(city, task, row, values[row], entropy[row]) for row in watched],
    }  # fmt: skip


def _agreed(settings: Settings, release: Release) -> tuple[JointTask, tuple[Leader, Helper], list[SigningKey]]:
    """The task, its two operators, and the people who may report."""
    people = [SigningKey(urandom(32)) for _ in range(PEOPLE)]
    enrolled = frozenset(one.public for one in people)
    identities, keys = [SigningKey(urandom(32)) for _ in range(2)], [AgreementKey(urandom(32)) for _ in range(2)]
    leading, helping = (OperatorKeys(who.public, key.public) for who, key in zip(identities, keys, strict=True))
    listed = sha256(b"".join(sorted(enrolled))).digest()
    task = JointTask(
        Round(urandom(16), "popularity", 0), terms_of(settings, release), urandom(32), leading, helping, listed, PEOPLE
    )
    leader, helper = (
        kind(task, identity=who, box_key=key, enrolled=enrolled, entropy=urandom(ENTROPY), **more)
        for kind, who, key, more in zip((Leader, Helper), identities, keys, ({"batch": BATCH}, {}), strict=True)
    )
    return task, (leader, helper), people


def terms_of(settings: Settings, release: Release) -> Terms:
    """Of a sum over two operators."""
    norm, length = release.norm, release.of.length
    return Terms(
        "two_operators", length, 64, norm.fraction_bits, int(norm.units), settings.floor, 0, 0, release.wanted_whole
    )


class Entropy:
    """The operating system's, which can be gone through once more."""

    def __init__(self) -> None:
        self.drawn: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        self.drawn.append(urandom(size))
        return self.drawn[-1]


def _message(message: AnyMessage, rows: dict[bytes, int], watched: Iterable[int]) -> dict[str, Any]:
    """A message as it crossed; of a report of somebody who is not looked at closely only how long it was."""
    data = encode(message)
    if not isinstance(message, Report):
        return {"bytes": _text(data)}
    row = rows[message.sender]
    return {"device": row, **({"bytes": _text(data)} if row in watched else {"length": len(data)})}


def _watched(city: Dataset, task: JointTask, row: int, value: OffsetArray, entropy: Entropy) -> dict[str, Any]:
    """What the device holds, and the shares of its vector that it sealed: split again, by the same random bytes."""
    nonce, *rest = entropy.drawn
    again = iter(rest)
    made: Proven = pine.report(proof_of(task.terms), value, nonce, lambda _: next(again))
    leader: FieldArray = np.frombuffer(made.leader, "<u8")[: len(value)]
    at = city.people.location
    features = {name: value_at(column, row) for name, column in city.people.columns.items()}
    return {
        "device": row,
        "features": {name: value for name, value in features.items() if value is not None},
        "home": None if at is None else [round(float(one), 5) for one in at[row]],
        "vector": value.tolist(),
        "leader": _text(leader.tobytes()),
        "helper": _text(differences(elements_of(value), leader).tobytes()),
    }


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


if __name__ == "__main__":
    PAGE.write_text(json.dumps(record(), separators=(",", ":")).replace('{"', '\n{"') + "\n", encoding="utf-8")
