"""What the engines come to with the noise that the devices of a deployment drew: engines/local with nobody lost, and
engines/plain, the oracle, without some who were left out of every sum."""

from collections.abc import Mapping

import numpy as np
import pytest

from prirec.engines import local, plain
from prirec.engines.state import State
from prirec.engines.train import start
from prirec.features.history import only_earlier
from prirec.features.popularity import Popularity
from prirec.features.samples import Samples, assemble
from prirec.privacy.popularity_estimate import POPULARITY, Prior, own_part
from prirec.privacy.weighted_popularity import NoisySums
from prirec.protocols import secure_sum
from prirec.protocols import terms as noise
from prirec.recommender import campaign as rules
from prirec.recommender.release import Catalogue
from prirec.rounds import definition
from prirec.rounds.definition import NoiseKey
from prirec.simulate.popularity import noisy_sums
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Charter, Edition, read
from support.deployment import Deployment, Entropy


def campaign_of(deployment: Deployment) -> Campaign:
    """As the store knows it when it is over."""
    held = deployment.store.progress()
    assert held is not None
    progress = rules.decode_state(held)
    charter = read(Charter, deployment.store.document(progress.charter), name=progress.charter)
    return Campaign.of(charter, read(Edition, deployment.store.document(progress.edition), name=progress.edition))


def samples_of(deployment: Deployment, campaign: Campaign) -> Samples:
    """As a simulation would have them, with the popularity that the deployment released."""
    assert campaign.edition is not None
    fetch = deployment.store.document
    popular = Catalogue.read(campaign.edition.manifest, fetch, campaign=campaign).known.counted
    own = noisy_sums(deployment.prepared, deployment.settings).own  # whatever the noise
    release = NoisySums(popular.sums, popular.sigma, own)
    prior = Prior(popular.predicted, popular.sigma, popular.shape)
    columns = {name: popular.released[:, at] for at, name in enumerate(popular.names)}
    if POPULARITY not in columns:
        raise AssertionError("nothing rises out of the noise: that devices leave out their own part is not seen")
    counts = Popularity(columns, {POPULARITY: own_part(release, prior, columns[POPULARITY], popular.weight)})
    prepared = deployment.prepared
    return assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=campaign.encoding, popularity=counts,
        earlier=only_earlier(campaign.settings.data),
    )  # fmt: skip


def simulated(
    samples: Samples, campaign: Campaign, drawn: Mapping[str, Entropy], monkeypatch: pytest.MonkeyPatch
) -> State:
    """All rounds of the campaign by the fast engine, with the devices' own shares in the place of simulated noise."""
    settings, cohort = campaign.settings, local.cohort_numbers(samples, campaign.settings)

    def shares(wanted: int, count: int, *, rostered: int, where: NoiseKey, **rest: object) -> np.ndarray:
        kind, t = str(where[0]), int(where[1])
        at = 1 + 2 * t - (kind == "linear")  # a device draws for visits, then in each round to mix and to learn
        terms = _terms(campaign, samples, kind)
        members = [i for i in range(len(samples.ids)) if kind == "interaction" or cohort[i] == where[2]]
        assert len(members) == rostered
        total = np.zeros(count, dtype=np.uint64)
        for i in members:
            total += noise.draw_noise(
                terms, rostered, seed=secure_sum.noise_seed(drawn[samples.ids[i]].drawn[at])
            ).astype(np.uint64)
        return total

    monkeypatch.setattr(definition, "simulated_noise", shares)
    state, engine = start(samples, settings), local.engine(samples, settings)
    for _ in range(settings.iterations):
        engine.advance(state)
    return state


def by_the_oracle(
    samples: Samples, campaign: Campaign, drawn: Mapping[str, Entropy], patch: pytest.MonkeyPatch, *, without: set[str]
) -> State:
    """The same by engines/plain, with some people on every roster and in no sum."""
    settings, cohort = campaign.settings, local.cohort_numbers(samples, campaign.settings)
    there = [i for i, name in enumerate(samples.ids) if name not in without]

    def shares(wanted: int, count: int, *, where: NoiseKey, **rest: object) -> np.ndarray:
        kind, t = str(where[0]), int(where[1])
        at = 1 + 2 * t - (kind == "linear")
        roster = [i for i in range(len(samples.ids)) if kind == "interaction" or cohort[i] == where[2]]
        seeds = [secure_sum.noise_seed(drawn[samples.ids[i]].drawn[at]) for i in roster if i in there]
        terms = _terms(campaign, samples, kind)
        return np.sum([noise.draw_noise(terms, len(roster), seed=seed) for seed in seeds], axis=0, dtype=np.uint64)

    patch.setattr(plain, "simulated_noise", shares)
    patch.setattr(plain, "present_in", lambda *given: plain.Present(list(range(len(samples.ids))), there, there))
    state, engine = start(samples, settings), plain.engine(samples, settings)
    for _ in range(settings.iterations):
        engine.advance(state)
    return state


def _terms(campaign: Campaign, samples: Samples, kind: str) -> noise.Terms:
    V = np.zeros((samples.features, campaign.settings.model.dimension))
    if kind == "interaction":
        return campaign.interaction(0, V=V).terms
    return campaign.mixing(1, 0, V=V, centre=np.zeros(samples.features + 1)).terms


def models_of(deployment: Deployment, samples: Samples, campaign: Campaign) -> np.ndarray:
    """W as the devices hold it, in the samples' order."""
    held = [deployment.people[name].model(campaign.name) for name in samples.ids]
    assert all(one is not None and one.iteration == campaign.settings.iterations for one in held)
    return np.stack([one.linear for one in held if one is not None])
