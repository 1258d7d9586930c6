"""One device's local step as a literal loop over what is printed, for tests that hold the kernel to it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from prirec.model.local_step import Contribution, DeviceRecords, Rates, Work, contribution_of, local_step, work
from prirec.model.public_half import Public, place_rows, public

from prirec.model import as_printed

CATALOGUE = 6


class Shape(NamedTuple):
    people: int = 2  # features of each kind
    places: int = 3
    context: int = 2
    K: int = 4
    latent: int = 0  # K'

    @property
    def D(self) -> int:
        return self.people + self.places + self.context


USUAL = Shape()


@dataclass
class Device:
    """What a device holds and what is public; w and u are moved by a step."""

    own: DeviceRecords
    places: np.ndarray  # (6, n): the catalogue's features
    V: np.ndarray
    P: np.ndarray  # (6, K')
    w: np.ndarray
    u: np.ndarray

    @property
    def shape(self) -> Shape:
        return Shape(
            len(self.own.person), self.places.shape[1], self.own.context.shape[1], self.V.shape[1], len(self.u)
        )

    def shared(self) -> Public:
        return public(self.V, place_rows(self.places), first=len(self.own.person), factors=self.P)


def room_for(shape: Shape, records: int) -> tuple[Work, Contribution]:
    made = contribution_of(shape.K, shape.D, latent=shape.latent, places=CATALOGUE, records=records)
    return work(shape.K, shape.D), made


@dataclass
class Stepped:
    w: np.ndarray
    u: np.ndarray
    gradient: np.ndarray  # (D, K)
    factors: np.ndarray  # (6, K')
    loss: float


def device(records: int, seed: int, shape: Shape = USUAL, *, present: float = 1.0) -> Device:
    """Somebody with so many records, and with so large a share of all features that are not 0."""
    rng = np.random.default_rng(seed)

    def features(*size: int) -> np.ndarray:
        return np.where(rng.random(size) < present, rng.normal(size=size), 0.0).astype(np.float32)

    own = DeviceRecords(
        person=features(shape.people),
        place=rng.integers(CATALOGUE, size=records).astype(np.int32),
        context=features(records, shape.context),
        label=rng.choice(np.array([-1, 1], dtype=np.int8), size=records),
    )
    places, V, w = (
        features(CATALOGUE, shape.places),
        rng.normal(size=(shape.D, shape.K)) / 2,
        rng.normal(size=shape.D + 1),
    )
    P, u = rng.normal(size=(CATALOGUE, shape.latent)), rng.normal(size=shape.latent)
    return Device(own, places, V, P, w, u)


def literal(of: Device, order: np.ndarray, rates: Rates) -> Stepped:
    """Record after record. What u . p adds to a score is to Eqs. (3) and (4) what a larger bias would be."""
    w, u, own, lambdas = of.w, of.u, of.own, (rates.latent.lambda_u, rates.latent.lambda_p)
    gradient, factors, losses = np.zeros_like(of.V), np.zeros_like(of.P), 0.0
    for row in order:
        j, y = own.place[row], int(own.label[row])
        x = np.concatenate([own.person, of.places[j], own.context[row]]).astype(float)
        flat = as_printed.predict(w, of.V, x)
        losses += as_printed.latent_objective(flat, y, u, of.P[j], 0.0, 0.0)
        raised = w.copy()
        raised[0] = as_printed.latent_score(w[0], u, of.P[j])
        gradient += np.array(as_printed.interaction_gradient(raised, of.V, x, y, 0.0))
        of_w = np.array(as_printed.linear_gradient(raised, of.V, x, y, 0.0)) + 2 * rates.lambda_w * w
        of_u, of_p = as_printed.latent_gradients(flat, y, u, of.P[j], *lambdas)
        factors[j] += of_p
        w = np.array(as_printed.centralised_step(w, of_w, rates.alpha))
        u = np.array(as_printed.centralised_step(u, of_u, rates.latent.alpha))
    gradient /= max(len(order), 1)
    factors *= rates.latent.weight
    length = np.sqrt((gradient**2).sum() + (factors**2).sum())
    shorter = rates.clip / length if length > rates.clip else 1.0
    return Stepped(w, u, gradient * shorter, factors * shorter, losses)


def stepped(of: Device, order: np.ndarray, rates: Rates) -> Stepped:
    """The same by the kernel; the device's w and u are moved."""
    shape = of.shape
    room, made = room_for(shape, len(order))
    made.interaction.gradient[:] = np.nan
    lost = local_step(of.w, of.u, of.shared(), of.own, order.astype(np.int32), rates, room, made)
    gradient, factors = np.split(made.whole(), [of.V.size])
    return Stepped(of.w, of.u, gradient.reshape(shape.K, shape.D).T, factors.reshape(of.P.shape), lost)
