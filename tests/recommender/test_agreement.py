"""A helper signs what it has computed itself but for the last bits, and goes on from what was published."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import run
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.errors import PeerError
from prirec.features.columns import FINE
from prirec.features.encoding import from_json
from prirec.model.estimate import Estimate
from prirec.model.shared_model import FINE_B
from prirec.privacy.popularity_estimate import PublicEstimate
from prirec.recommender import agreement, campaign, release
from prirec.recommender.operator import sign_entries
from prirec.wire.documents import (
    Counts,
    Document,
    Edition,
    Figure,
    Figures,
    Manifest,
    Model,
    Scales,
    array,
    octets,
    read,
    written,
)
from prirec.wire.operators import Envelope, Follow, Followed, Put, Taken
from support import messages
from support.low_floors import low_floor
from support.operator_pair import HOUR, OperatorPair, few

PHASES: dict[str, int] = {
    "edition": 1,
    "scales": 2,
    "model": 3,
    "figures": 5,
}  # windows after which the helper waits for such an entry
Forge = Callable[[OperatorPair, bytes], list[Document]]  # what is published in the place of a document


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


@pytest.fixture
def pair(tmp_path: Path) -> OperatorPair:
    made = OperatorPair(tmp_path)
    made.begin()
    return made


def window(pair: OperatorPair) -> None:
    pair.run()
    pair.post(*range(7))
    pair.run()
    pair.now += HOUR
    pair.run()


@contextmanager
def rounding_otherwise(off: float) -> Iterator[None]:
    """A machine whose floats are off by this share, and whose rounded numbers by a step."""
    estimated, scaled, after = release.public_estimate, campaign.moments_release, Estimate.after

    def estimate(*given: Any, **named: Any) -> PublicEstimate:
        found = estimated(*given, **named)
        columns = {name: values * (1 + off) for name, values in found.columns.items()}
        prior = replace(found.prior, predicted=found.prior.predicted * (1 - off), shape=found.prior.shape * (1 + off))
        return PublicEstimate(columns, prior, found.weight * (1 + off))

    def scales(*given: Any, **named: Any) -> Any:
        moments, page = scaled(*given, **named)
        means = {name: _times(getattr(page, name), 1 + off) for name in ("person_mean", "moment_sd")}
        word = octets(array(page.word_factor, np.float64, (-1,)) + 1 / FINE, np.float64)
        return moments, msgspec.structs.replace(page, **means, word_factor=word, positive=page.positive * (1 - off))

    def moved(self: Estimate, *given: Any) -> Estimate:
        found = after(self, *given)
        return replace(
            found, B=np.where(found.groups >= 0, found.B + 1 / FINE_B, 0.0), curvature=found.curvature * (1 + off)
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "public_estimate", estimate)
        patch.setattr(campaign, "moments_release", scales)
        patch.setattr(Estimate, "after", moved)
        yield


def _times(values: bytes, factor: float) -> bytes:
    return octets(array(values, np.float64, (-1,)) * factor, np.float64)


def other_machine(pair: OperatorPair, off: float) -> None:
    """From now on the helper's."""
    answered = pair.service.answer

    def answer(body: bytes, envelope: Envelope) -> tuple[bytes, str]:
        with rounding_otherwise(off):
            return answered(body, envelope)

    pair.service.answer = answer  # type: ignore[method-assign]


def test_operators_whose_machines_round_otherwise_come_to_one_model(pair: OperatorPair) -> None:
    other_machine(pair, 1e-11)
    for _ in range(4):
        window(pair)
    pair.run()
    leader, helper = pair.state(), pair.state(pair.helping)
    assert leader.phase == helper.phase == "over"
    assert leader.shared == helper.shared
    assert (leader.edition, leader.scales) == (helper.edition, helper.scales)
    assert leader.average != helper.average  # what is not published is each one's own, and stays near
    near = [array(state.average, np.float64, (-1,)) for state in (leader, helper)]
    np.testing.assert_allclose(*near, atol=10 / FINE_B)
    assert pair.leading.head() == pair.helping.head()


def test_a_machine_that_computes_something_else_signs_nothing(pair: OperatorPair) -> None:
    other_machine(pair, 1e-6)
    with pytest.raises(PeerError, match=messages.NOT_SIGNED):
        window(pair)


# What a dishonest recommender publishes instead


def counts(**changes: Callable[[np.ndarray], np.ndarray]) -> Forge:
    """An edition with other numbers in one region."""

    def forge(pair: OperatorPair, name: bytes) -> list[Document]:
        edition = read(Edition, pair.fetch(name), name=name)
        manifest = read(Manifest, pair.fetch(edition.manifest), name=edition.manifest)
        line = manifest.regions[0]
        page = read(Counts, pair.fetch(line.counts), name=line.counts)
        values = {
            name: octets(change(array(getattr(page, name), np.float64, (-1,))), np.float64)
            for name, change in changes.items()
        }
        page = msgspec.structs.replace(page, **values)
        line = msgspec.structs.replace(line, counts=written(page)[0])
        manifest = msgspec.structs.replace(manifest, regions=(line, *manifest.regions[1:]))
        return [page, manifest, msgspec.structs.replace(edition, manifest=written(manifest)[0])]

    return forge


def regions(**changes: object) -> Forge:
    """An edition whose regions name something else."""

    def forge(pair: OperatorPair, name: bytes) -> list[Document]:
        edition = read(Edition, pair.fetch(name), name=name)
        manifest = read(Manifest, pair.fetch(edition.manifest), name=edition.manifest)
        line = msgspec.structs.replace(manifest.regions[0], **changes)
        manifest = msgspec.structs.replace(manifest, regions=(line, *manifest.regions[1:]))
        return [manifest, msgspec.structs.replace(edition, manifest=written(manifest)[0])]

    return forge


def encoding(edition: Edition) -> dict[str, object]:
    found = from_json(edition.encoding)
    blocks = [msgspec.structs.replace(block, shift=block.shift + 1e-6) for block in found.popularity]
    return {"encoding": msgspec.structs.replace(found, popularity=tuple(blocks)).to_json()}


def changed(kind: type[Any], change: Callable[[Any], dict[str, object]]) -> Forge:
    def forge(pair: OperatorPair, name: bytes) -> list[Document]:
        page = read(kind, pair.fetch(name), name=name)
        return [msgspec.structs.replace(page, **change(page))]

    return forge


def two_steps(scales: Scales) -> dict[str, object]:
    return {"word_centre": octets(array(scales.word_centre, np.float64, (-1,)) + 2 / FINE, np.float64)}


def off_by(steps: float) -> Callable[[Model], dict[str, object]]:
    """One entry of B."""

    def change(model: Model) -> dict[str, object]:
        B = array(model.shared, np.float32, (-1,))
        B[0] += steps / FINE_B
        return {"shared": octets(B, np.float32)}

    return change


def first(to: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[0] = to(values[0])
        return values

    return change


LIES: dict[str, tuple[str, Forge]] = {
    "a place's popularity": ("edition", counts(released=lambda values: values * (1 + 1e-7))),
    "no number": ("edition", counts(predicted=first(lambda _: np.nan))),
    "without end": ("edition", counts(weight=first(lambda _: np.inf))),
    "the opened sum, in its last bit": ("edition", counts(sums=first(lambda one: float(np.nextafter(one, np.inf))))),
    "a place more": ("edition", counts(weight=lambda values: np.append(values, 0.0))),
    "no popularity": ("edition", regions(counts=b"")),
    "the noise": ("edition", changed(Edition, lambda one: {"sigma": one.sigma * (1 + 1e-7)})),
    "the prior": ("edition", changed(Edition, lambda one: {"shape": one.shape + 1e-3})),
    "another charter": ("edition", changed(Edition, lambda _: {"charter": bytes(32)})),
    "how popularity is encoded": ("edition", changed(Edition, encoding)),
    "a mean of people": ("scales", changed(Scales, lambda one: {"person_mean": _times(one.person_mean, 1.001)})),
    "how many records": ("scales", changed(Scales, lambda one: {"root_records": one.root_records * 1.001})),
    "scales of another edition": ("scales", changed(Scales, lambda _: {"edition": bytes(32)})),
    "a word by two steps": (
        "scales", changed(Scales, two_steps)
    ),
    "B by two steps": ("model", changed(Model, off_by(2))),
    "B by half a step": ("model", changed(Model, off_by(0.5))),
    "B of another round": ("model", changed(Model, lambda one: {"iteration": one.iteration + 1})),
    "B under other scales": ("model", changed(Model, lambda _: {"scales": bytes(32)})),
    "a longer B": ("model", changed(Model, lambda one: {"shared": one.shared + bytes(4)})),
}  # fmt: skip


def said_instead(pair: OperatorPair, subject: str, forge: Forge | None) -> None:
    """The sum is open at both, and the log of the recommender says something else than it has computed."""
    for _ in range(PHASES[subject] - 1):
        window(pair)
    pair.run()
    pair.post(*range(7))
    pair.run()
    pair.now += HOUR
    follow, pair.peer.follow = pair.peer.follow, lambda: None  # type: ignore[method-assign]
    pair.conductor.tick()
    pair.peer.follow = follow  # type: ignore[method-assign]
    assert pair.state(pair.helping).owed[0].subject == subject
    true = pair.leading.entries(pair.helping.head().length)[0].entry
    assert true.subject == subject
    pages = [] if forge is None else [written(one) for one in forge(pair, true.document)]
    if pages:
        pair.peer.ask(Put(tuple(body for _, body in pages)), Taken)
    last = pages[-1][0] if pages else true.document
    founding = pair.leading.founding()
    entries = sign_entries(founding, [(true.subject, last)])(pair.helping.head(), founding)
    pair.peer.ask(Follow(tuple(entries)), Followed)


@pytest.mark.parametrize("subject", ["edition", "scales", "model"])
def test_the_truth_is_signed(pair: OperatorPair, subject: str) -> None:
    said_instead(pair, subject, None)


def test_a_step_of_B_is_within_rounding(pair: OperatorPair) -> None:
    said_instead(pair, "model", changed(Model, off_by(1)))


@pytest.mark.parametrize("lie", LIES)
def test_what_is_beyond_rounding_is_not_signed(pair: OperatorPair, lie: str) -> None:
    subject, forge = LIES[lie]
    with pytest.raises(PeerError) as refusal:
        said_instead(pair, subject, forge)
    assert not isinstance(refusal.value.__cause__, AssertionError)
    assert pair.state(pair.helping).owed[0].subject == subject  # it still waits for the truth
    truth = pair.leading.entries(pair.helping.head().length)
    pair.peer.ask(Follow(tuple(truth)), Followed)


FALSE_FIGURES: dict[str, Callable[[Figures], dict[str, object]]] = {
    "a better figure": lambda one: {"figures": (Figure("auc", 0.99, 0.01, 0.01),)},
    "a figure more": lambda one: {"figures": (*one.figures, Figure("auc", 0.5, 0.1, 0.1))},
    "another sum": lambda one: {"total": one.total[8:] + one.total[:8]},
    "more reports": lambda one: {"reports": one.reports + 1},
    "another model": lambda one: {"model": bytes(32)},
}


@pytest.mark.parametrize("lie", [None, *FALSE_FIGURES])
def test_only_quality_figures_that_follow_from_the_sum_are_signed(tmp_path: Path, lie: str | None) -> None:
    pair = OperatorPair(tmp_path)
    pair.begin(few(privacy={"quality": 0.2}))
    if lie is None:
        said_instead(pair, "figures", None)
        return
    with pytest.raises(PeerError):
        said_instead(pair, "figures", changed(Figures, FALSE_FIGURES[lie]))
    assert pair.state(pair.helping).owed[0].subject == "figures"


# Two kinds of processors


FIND = """
import sys; sys.path.insert(0, "tests")
from recommender.test_agreement import made_up
sys.stdout.buffer.write(made_up())
"""


def made_up() -> bytes:
    """Popularity of 3,000 places from made-up sums, as a document."""
    from prirec.features.popularity import OwnCounts
    from prirec.privacy.weighted_popularity import NoisySums

    scattered = np.arange(1, 3000 * 15 + 1, dtype=np.uint64) * np.uint64(2654435761) % np.uint64(2**32)
    table = (scattered / 2**32).reshape(3000, -1)
    features, location = table[:, 3:], np.array([51.0, 7.0]) + table[:, 1:3] / 10
    sums = np.rint((5.0 + features.sum(axis=1) + table[:, 0]) * 2**12) / 2**12
    none = OwnCounts(3000, np.empty(0, dtype=np.int64), np.empty(0))
    found = release.public_estimate(NoisySums(sums, 0.5, none), location=location, features=features)
    released = np.stack(list(found.columns.values()), axis=1)
    arrays = released, sums, found.prior.predicted, found.weight
    return written(Counts(0, *(octets(one, np.float64) for one in arrays)))[1]


def test_processors_with_other_kernels_agree_within_rounding() -> None:
    """As far as the library for linear algebra has kernels for both; else the two are equal, and agree."""
    root = Path(__file__).parents[2]
    said = [
        run(
            [sys.executable, "-c", FIND], env=os.environ | {"OPENBLAS_CORETYPE": kernels}, capture_output=True,
            check=True, cwd=root,
        ).stdout
        for kernels in ("Haswell", "Prescott")
    ]  # fmt: skip
    mine, theirs = (msgspec.msgpack.decode(one, type=Counts) for one in said)
    agreement._agree_on_arrays(mine, theirs, names=("released", "predicted", "weight"))
    assert mine.sums == theirs.sums
