"""One device's local step as a literal loop over what is printed, for tests that hold the kernel to it."""

from dataclasses import dataclass

import numpy as np

from prirec.model import as_printed
from prirec.model.contribution import contribution_of, work
from prirec.model.local_step import Own, Rates, local_step
from prirec.model.public_half import place_rows, public

PEOPLE, PLACES, CONTEXT, K, CATALOGUE = 2, 3, 2, 4, 6
D = PEOPLE + PLACES + CONTEXT


@dataclass
class Device:
    """What a device holds and what is public; w and u are moved by a step."""

    own: Own
    places: np.ndarray  # (6, 3): the catalogue's features
    V: np.ndarray
    P: np.ndarray  # (6, K')
    w: np.ndarray
    u: np.ndarray

    @property
    def latent(self) -> int:
        return len(self.u)


@dataclass
class Stepped:
    w: np.ndarray
    u: np.ndarray
    gradient: np.ndarray  # (D, K)
    factors: np.ndarray  # (6, K')
    loss: float


def device(records: int, seed: int, *, latent: int = 0) -> Device:
    rng = np.random.default_rng(seed)
    own = Own(
        person=rng.normal(size=PEOPLE).astype(np.float32),
        place=rng.integers(CATALOGUE, size=records).astype(np.int32),
        context=rng.normal(size=(records, CONTEXT)).astype(np.float32),
        label=rng.choice(np.array([-1, 1], dtype=np.int8), size=records),
    )
    places, V, w = rng.normal(size=(CATALOGUE, PLACES)), rng.normal(size=(D, K)) / 2, rng.normal(size=D + 1)
    P, u = rng.normal(size=(CATALOGUE, latent)), rng.normal(size=latent)
    return Device(own, places.astype(np.float32), V, P, w, u)


def literal(of: Device, order: np.ndarray, rates: Rates) -> Stepped:
    """Record after record. What u . p adds to a score is to Eqs. (3) and (4) what a larger bias would be."""
    w, u, own, lambdas = of.w, of.u, of.own, (rates.latent.lambda_u, rates.latent.lambda_p)
    gradient, factors, losses = np.zeros((D, K)), np.zeros_like(of.P), 0.0
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
    made = contribution_of(K, D, latent=of.latent, places=CATALOGUE, records=len(order))
    made.interaction.gradient[:] = np.nan
    shared = public(of.V, place_rows(of.places), first=PEOPLE, factors=of.P)
    lost = local_step(of.w, of.u, shared, of.own, order.astype(np.int32), rates, work(K, D), made)
    whole = made.whole()
    return Stepped(of.w, of.u, whole[: K * D].reshape(K, D).T, whole[K * D :].reshape(CATALOGUE, of.latent), lost)
