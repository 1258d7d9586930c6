"""What a curious party can tell about somebody's visits from what each model lets it see. All of it is measured.

- the recommender, by itself: what is sent to it, and what it opens;
- a neighbour, by itself;
- everybody else together, against one: they know all contributions but one and take them off. What is left of a plain
  sum is that person's, exactly; of a noisy one it is what ε allows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.engines.plain import Rounds, Samplewise
from prirec.engines.randomness import generator
from prirec.engines.state import State, centres
from prirec.engines.sums import InTheClear, added
from prirec.errors import PolicyError
from prirec.evaluate.experiment import Setup
from prirec.evaluate.ranking import positives
from prirec.experiments.questions import Questions
from prirec.experiments.read_gradient import likeness, read, switches
from prirec.experiments.rivals import dmf
from prirec.features.samples import Records, Samples
from prirec.model.contribution import contribution_of, work
from prirec.model.kernels import residual
from prirec.model.local_step import Own, local_step, rates_of
from prirec.model.models import Models
from prirec.model.scoring import scores
from prirec.types import IndexArray, RealArray, RingArray

OPENED = 12  # samples of one person whose gradients are looked at

Found: TypeAlias = dict[str, float]  # who attacks -> how often it is right


@dataclass(frozen=True, slots=True)
class Scene:
    """A trained model, and the questions."""

    setup: Setup
    state: State = field(repr=False)
    asked: Questions

    @property
    def samples(self) -> Samples:
        return self.setup.samples


def by_records(samples: Samples, asked: Questions) -> Found:
    """Whoever holds the records looks them up; whoever hears who reports about a place does too."""
    been = positives(samples.train)

    def known(places: IndexArray) -> RealArray:
        pairs = zip(asked.person.tolist(), places.tolist(), strict=True)
        return np.array([float(place in been[i]) for i, place in pairs])

    return {"recommender": asked.right(known(asked.visited), known(asked.decoy))}


def by_popularity(visitors: RealArray, asked: Questions) -> Found:
    """What the questions themselves give away: whoever sees nothing but how popular places are."""
    return {"recommender": asked.right(visitors[asked.visited], visitors[asked.decoy])}


def by_bits(asked: Questions, *, epsilon: float, seed: int) -> Found:
    """One answer about each place, true with probability e^ε / (1 + e^ε): Eq. (5)."""
    rng, truth = generator(seed, "bits of an attacked"), np.exp(epsilon) / (1 + np.exp(epsilon))
    yes = rng.random(len(asked)) < truth
    no = rng.random(len(asked)) >= truth
    return {"recommender": asked.right(yes.astype(np.float64), no.astype(np.float64))}


def by_gradients_of_neighbours(samples: Samples, asked: Questions, settings: dmf.DmfSettings) -> Found:
    """DMF: a neighbour is sent r u_i for each record, with the name of the place. Everybody's u begins around one
    direction, so the product with its own tells the sign of r, which is the label."""
    model, around = dmf.fit(samples, settings), dmf.user_graph(samples, settings)
    u, train = model.parts.person, samples.train

    def heard(i: int, place: int) -> float:
        rows = np.flatnonzero(train.place[train.offsets[i] : train.offsets[i + 1]] == place) + train.offsets[i]
        if not len(rows) or around.offsets[i] == around.offsets[i + 1]:
            return 0.0
        guess = model.at(np.array([i], dtype=np.int32), np.array([place], dtype=np.int32))[0]
        gradient = residual(float(train.label[rows[0]]), float(guess)) * u[i]
        return float(-gradient @ u[around.people[around.offsets[i]]])

    def all_heard(places: IndexArray) -> RealArray:
        return np.array([heard(i, place) for i, place in zip(asked.person.tolist(), places.tolist(), strict=True)])

    return {"neighbour": asked.right(all_heard(asked.visited), all_heard(asked.decoy))}


def by_single_gradients(scene: Scene) -> Found:
    """Algorithm 2 with a batch of one: the recommender opens ∇V of each sample, and reads the sample off it."""
    samples, settings = scene.samples, scene.setup.settings
    paper = Samplewise(samples, settings, InTheClear(samples, settings))
    catalogue, at = samples.catalogue.astype(np.float64), _place_columns(samples)
    switched, asked = switches(scene.setup.encoding), scene.asked
    right_labels, of_visited, of_decoy = list[bool](), list[float](), list[float]()
    rows = (asked.person.tolist(), asked.visited.tolist(), asked.decoy.tolist())
    for i, visited, decoy in zip(*rows, strict=True):
        best = np.zeros(2)
        for row in _rows(samples, i, visited):
            opened = _opened(paper, scene.state, row)
            found = read(opened, scene.state.interaction, lambda_v=settings.model.lambda_v, switched=switched)
            if found is not None:
                right_labels.append(found.label == samples.train.label[row])
                if found.label > 0:
                    best = np.maximum(best, likeness(found.x[at], catalogue[[visited, decoy]]))
        of_visited.append(best[0])
        of_decoy.append(best[1])
    told = asked.right(np.array(of_visited), np.array(of_decoy))
    return {"recommender": told, "labels": float(np.mean(right_labels)) if right_labels else 0.5}


def _rows(samples: Samples, i: int, visited: int) -> IndexArray:
    """Some of the person's samples, with one of the visited place among them."""
    rows = np.arange(samples.train.offsets[i], samples.train.offsets[i + 1])
    first = rows[samples.train.place[rows] == visited][:1]
    return np.concatenate([first, np.setdiff1d(rows, first)])[:OPENED].astype(np.int64)


def _opened(paper: Samplewise, state: State, row: int) -> RealArray:
    """(D, K): what the recommender opens for one sample, as the ring has it."""
    T, person = np.ascontiguousarray(state.interaction.T), int(paper.samples.train.person[row])
    gradient = paper.gradient_of_interaction(state.linear[person], T, paper.sample(row), row)
    ring = paper.codes.interaction.ring
    opened = ring.decode(paper.sums.over_batch([(person, ring.encode(gradient))], V=T))
    return np.ascontiguousarray(opened.reshape(T.shape).T)


def _place_columns(samples: Samples) -> IndexArray:
    """Of the D features those of the place, in the order of the catalogue: static ones, then popularity."""
    first, wide = samples.people.shape[1], samples.places.shape[1] + samples.popularity.shape[1]
    return np.arange(first, first + wide)


def by_sums(scene: Scene) -> Found:
    """Rounds: the recommender opens one sum over everyone; with everybody else's contributions taken off, what is left
    is compared with what a visit to each of the two places would have added."""
    samples, settings, models = scene.samples, scene.setup.settings, scene.state.models
    rounds = Rounds(samples, settings, InTheClear(samples, settings))
    shared = rounds.shared(models)
    values: dict[int, RingArray] = {}
    for i in range(len(samples.ids)):
        w, u = (part.copy() for part in models.of(i))
        contribution, _ = rounds.learn(w, u, shared, i, scene.state.iteration)
        values[i] = rounds.codes.interaction.write(contribution)
    everyone = list(values)
    opened = rounds.sums.over_everyone(
        values, survivors=everyone, public=models.public, iteration=scene.state.iteration
    )
    if opened is None:
        raise PolicyError("the sum is over too few people to be opened, so there is nothing to attack")
    ring = rounds.codes.interaction.ring
    rest, whole = _left(opened, values, scene.asked.person.tolist()), ring.decode(opened)
    guesses = [_guess(scene, rounds, places) for places in (scene.asked.visited, scene.asked.decoy)]
    alone = [guess @ whole for guess in guesses]
    alone_left = np.array([ring.decode(rest[i]) for i in scene.asked.person.tolist()])
    together = [(guess * alone_left).sum(axis=1) for guess in guesses]
    return {
        "recommender": scene.asked.right(alone[0], alone[1]),
        "everybody else, by V": scene.asked.right(together[0], together[1]),
        "everybody else, by W": _by_models(scene, rounds),
        **_by_factors(scene, alone_left),
    }


def _by_factors(scene: Scene, left: RealArray) -> Found:
    """With a latent part, what is left of a sum has a row for each place, and only where the person has a record is
    there anything in it."""
    P = scene.state.models.factors
    if P is None:
        return {}
    rows = left[:, -P.size :].reshape(len(left), *P.shape)
    long = [np.linalg.norm(rows[np.arange(len(left)), at], axis=1) for at in (scene.asked.visited, scene.asked.decoy)]
    return {"everybody else, by P": scene.asked.right(long[0], long[1])}


def _left(opened: RingArray, values: Mapping[int, RingArray], people: Iterable[int]) -> dict[int, RingArray]:
    """For each of these people what is left of an opened sum when everybody else takes their contribution off."""
    total = added(list(values.values()))
    return {i: opened - (total - values[i]) for i in people}


def _guess(scene: Scene, rounds: Rounds, places: IndexArray) -> RealArray:
    """(Q, K * D + J * K'): what a single visit to the place would add, by somebody whose features are known and whose
    models are not: they are taken to be 0."""
    samples, settings, shared = scene.samples, scene.setup.settings, rounds.shared(scene.state.models)
    (J, depth), (D, K) = shared.factors.shape, scene.state.interaction.shape
    rates, room = rates_of(settings, clip=np.inf), contribution_of(K, D, latent=depth, places=J, records=1)
    made = np.empty((len(places), K * D + J * depth))
    for row, (i, place) in enumerate(zip(scene.asked.person.tolist(), places.tolist(), strict=True)):
        context = np.zeros((1, samples.train.context.shape[1]), dtype=np.float32)
        context[0, : samples.popularity.shape[1]] = samples.popularity[place]
        own = Own(samples.people[i], np.array([place], dtype=np.int32), context, np.ones(1, dtype=np.int8))
        first = np.zeros(1, dtype=np.int32)
        local_step(np.zeros(D + 1), np.zeros(depth), shared, own, first, rates, work(K, D), room)
        made[row] = room.whole()
    return made


def _by_models(scene: Scene, rounds: Rounds) -> float:
    """The rest of a cohort takes its models off the cohort's sum, and asks the one that is left."""
    samples, state, code = scene.samples, scene.state, rounds.codes.linear
    around = centres(state, int(rounds.cohort.max()) + 1, public=code.noise > 0)
    models = np.zeros((len(samples.ids), samples.features + 1))
    for cohort in np.unique(rounds.cohort[scene.asked.person]).tolist():
        members, centre = np.flatnonzero(rounds.cohort == cohort).tolist(), around[cohort]
        values = {f: code.write(rounds.clipped(state.linear[f], centre)) for f in members}
        opened = rounds.sums.over_cohort(
            cohort, values, survivors=members, public=state.models.public, centre=centre, iteration=state.iteration
        )
        if opened is not None:
            mine = np.intersect1d(scene.asked.person, members).tolist()
            for i, rest in _left(opened, values, mine).items():
                models[i] = centre + code.ring.decode(rest)
    told = [
        scores(Models(models, state.interaction), samples, _as_records(samples, scene.asked.person, places))
        for places in (scene.asked.visited, scene.asked.decoy)
    ]
    return scene.asked.right(told[0], told[1])


def _as_records(samples: Samples, person: IndexArray, place: IndexArray) -> Records:
    """Visits that might have been, at no particular moment."""
    context = np.zeros((len(place), samples.train.context.shape[1]), dtype=np.float32)
    context[:, : samples.popularity.shape[1]] = samples.popularity[place]
    nobody = np.zeros(len(samples.ids) + 1, dtype=np.int64)
    return Records(nobody, person, place, np.ones(len(place), dtype=np.int8), context)
