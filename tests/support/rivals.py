"""Rivals said as plainly as they can be, for the kernels to be held to, and small cities to run both on."""

from collections import defaultdict
from dataclasses import replace

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.features.samples import Records, Samples
from prirec.graph.neighbours import Neighbours
from prirec.simulate.setup import Setup, set_up
from prirec.util.keyed_random import iteration_key, shuffle
from prirec_experiments.rivals import dmf, fm_ids, mf
from prirec_experiments.rivals.descent import Descent
from support.cities import SMALL_FM, small_city

RIVALS = (
    (mf, mf.MfSettings(dimension=3, passes=3)),
    (dmf, dmf.DmfSettings(dimension=3, passes=3, neighbours=4)),
    (fm_ids, fm_ids.FmIdsSettings(dimension=3, passes=3)),
)


def hamlet(*, seed: int = 0) -> Dataset:
    """A few people and places, without times, so that a candidate is described as a test record is."""
    city = small_city(people=30, places=12, records=160, seed=seed)
    return city.with_visits(replace(city.visits, time=None))


def ready(city: Dataset | None = None, settings: Settings = SMALL_FM) -> Setup:
    return set_up(hamlet() if city is None else city, settings)


def without_records_of(samples: Samples, *, person: int, place: int) -> Samples:
    """The same, where training saw nothing of one person and nothing of one place."""
    train = samples.train
    kept = (train.person != person) & (train.place != place)
    counts = np.bincount(train.person[kept], minlength=len(samples.ids))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    part = Records(offsets, train.person[kept], train.place[kept], train.label[kept], train.context[kept])
    return replace(samples, train=part)


def with_repeated_records(samples: Samples) -> Samples:
    """Every training record twice: people come again."""
    train = samples.train
    twice = np.repeat(np.arange(len(train)), 2)
    records = Records(
        2 * train.offsets, train.person[twice], train.place[twice], train.label[twice], train.context[twice]
    )
    return replace(samples, train=records)


def orders(samples: Samples, settings: Descent) -> list[list[int]]:
    """The rows of the training records, pass by pass."""
    found = []
    for number in range(settings.passes):
        order = np.empty(len(samples.train), dtype=np.int64)
        shuffle(iteration_key(settings.seed, "order", number), order)
        found.append(order.tolist())
    return found


def residual(y: float, score: float) -> float:
    """The slope of -ln sigma(y s) in s."""
    return -y * (1.0 - 1.0 / (1.0 + np.exp(-y * score)))


def plain_mf(samples: Samples, settings: mf.MfSettings) -> mf.Factors:
    """Every gradient is taken at the model as it was before the record."""
    start = mf.start(samples, settings)
    bias, b, c, U, V = 0.0, start.of_person, start.of_place, start.person, start.place
    train, s = samples.train, settings
    for row in (row for order in orders(samples, settings) for row in order):
        i, j, y = train.person[row], train.place[row], float(train.label[row])
        u, v = U[i].copy(), V[j].copy()
        r = residual(y, bias + b[i] + c[j] + u @ v)
        bias -= s.alpha * r
        b[i] -= s.alpha * (r + 2 * s.lambda_w * b[i])
        c[j] -= s.alpha * (r + 2 * s.lambda_w * c[j])
        U[i] = u - s.alpha * (r * v + 2 * s.lambda_v * u)
        V[j] = v - s.alpha * (r * u + 2 * s.lambda_v * v)
    return mf.Factors(np.array([bias]), b, c, U, V)


class PlainDmf:
    """Devices, each with what it keeps in dictionaries, and a count of the values that were sent."""

    def __init__(self, samples: Samples, settings: dmf.DmfSettings, graph: Neighbours):
        K, people = settings.dimension, range(len(samples.ids))
        self.u = dmf.start(samples, settings, pairs=0, held=0).person
        self.p = [defaultdict(lambda: np.zeros(K, dtype=np.float32)) for _ in people]
        self.q = [defaultdict(lambda: np.zeros(K, dtype=np.float32)) for _ in people]
        self.sent = 0
        for row in (row for order in orders(samples, settings) for row in order):
            self.learn(samples.train, row, settings, graph)

    def learn(self, train: Records, row: int, s: dmf.DmfSettings, graph: Neighbours) -> None:
        i, j, y = int(train.person[row]), int(train.place[row]), float(train.label[row])
        u, p, q = self.u[i].copy(), self.p[i][j].astype(float), self.q[i][j].astype(float)
        r = residual(y, u @ (p + q))
        told = r * u + 2 * s.lambda_v * p
        self.u[i] = u - s.alpha * (r * (p + q) + 2 * s.lambda_v * u)
        self.q[i][j] = (q - s.alpha * (r * u + 2 * s.lambda_v * q)).astype(np.float32)
        self.p[i][j] = (p - s.alpha * told).astype(np.float32)
        for f in graph.of(i).tolist():
            self.p[f][j] = (self.p[f][j] - s.alpha * s.weight * told).astype(np.float32)
            self.sent += len(told)

    def score(self, i: int, j: int) -> float:
        common, personal = self.p[i].get(j, 0.0), self.q[i].get(j, 0.0)
        return float((self.u[i] * (common + personal)).sum())


class PlainFmIds:
    """FM of Eq. (1) on one long x: the features, then who, then where. Adagrad on what is not 0 in x."""

    def __init__(self, samples: Samples, settings: fm_ids.FmIdsSettings):
        s, self.samples, start = settings, samples, fm_ids.start(samples, settings)
        D, ids = samples.features, len(samples.ids) + len(samples.places)
        self.w0, self.w = 0.0, np.zeros(D + ids)
        self.V = np.vstack([start.transposed.T, start.person, start.place])
        self.squares = [1e-8, np.full_like(self.w, 1e-8), np.full_like(self.V, 1e-8)]
        self.lambda_w = np.repeat([s.lambda_w, s.lambda_weights], [D, ids])
        self.lambda_v = np.repeat([s.lambda_v, s.lambda_ids], [D, ids])[:, None]
        for row in (row for order in orders(samples, settings) for row in order):
            self.learn(self.x(samples.train, row), float(samples.train.label[row]), s.alpha)

    def x(self, records: Records, row: int) -> np.ndarray:
        samples, i, j = self.samples, records.person[row], records.place[row]
        who, where = np.zeros(len(samples.ids)), np.zeros(len(samples.places))
        who[i], where[j] = 1.0, 1.0
        return np.concatenate([samples.people[i], samples.places[j], records.context[row], who, where]).astype(float)

    def score(self, x: np.ndarray) -> float:
        pairs = sum(
            (self.V[d] @ self.V[e]) * x[d] * x[e] for d in np.flatnonzero(x) for e in np.flatnonzero(x) if d < e
        )
        return float(self.w0 + self.w @ x + pairs)

    def learn(self, x: np.ndarray, y: float, alpha: float) -> None:
        r, there = residual(y, self.score(x)), x != 0
        slopes = (
            r,
            np.where(there, r * x + 2 * self.lambda_w * self.w, 0.0),
            np.where(
                there[:, None], r * x[:, None] * (x @ self.V - self.V * x[:, None]) + 2 * self.lambda_v * self.V, 0.0
            ),
        )
        self.squares = [kept + slope**2 for kept, slope in zip(self.squares, slopes, strict=True)]
        steps = [alpha * slope / np.sqrt(kept) for kept, slope in zip(self.squares, slopes, strict=True)]
        self.w0, self.w, self.V = self.w0 - steps[0], self.w - steps[1], self.V - steps[2]
