"""What the engines come to with the noise that the devices of a deployment drew: engines/local with nobody lost, and
engines/plain, the oracle, without some who were left out of every sum."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from prirec.data.prepare import Prepared
from prirec.device.recommend import own_model, published
from prirec.device.records import held_out
from prirec.device.sync import View
from prirec.engines import local, plain
from prirec.engines.state import RoundsState
from prirec.features.history import only_earlier
from prirec.features.samples import Samples, assemble
from prirec.model import scoring
from prirec.privacy.popularity_estimate import POPULARITY, Prior, PublicEstimate
from prirec.privacy.quality_figures import FIRST, contributions
from prirec.privacy.weighted_popularity import NoisySums
from prirec.protocols import secure_sum
from prirec.protocols import terms as noise
from prirec.recommender import campaign as rules
from prirec.recommender.release import Catalogue
from prirec.rounds import definition
from prirec.rounds.definition import NoiseKey
from prirec.simulate.popularity import SecureSum, noisy_sums, reporting
from prirec.simulate.recommend import Advisor, hits_of_all
from prirec.simulate.setup import Setup
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Charter, Edition, Scales, read
from support.cities import same_bits
from support.deployment import Deployment, Entropy


def campaign_of(deployment: Deployment) -> Campaign:
    """As the store knows it when it is over."""
    held = deployment.store.progress()
    assert held is not None
    progress = rules.decode_state(held)
    charter = read(Charter, deployment.store.document(progress.charter), name=progress.charter)
    edition = read(Edition, deployment.store.document(progress.edition), name=progress.edition)
    return Campaign.of(charter, edition, read(Scales, deployment.store.document(progress.scales), name=progress.scales))


def state_of(deployment: Deployment) -> RoundsState:
    """What is public when a campaign is over, from the recommender's store."""
    campaign, progress = campaign_of(deployment), rules.decode_state(deployment.store.progress() or b"")
    return RoundsState(progress.iteration, campaign.scaling[0], progress.estimate(campaign.columns))


def parted(deployment: Deployment, campaign: Campaign) -> Prepared:
    """The records that devices learn from as the training's, and those that they hold out as the test's."""
    prepared, held = deployment.prepared, np.zeros(len(deployment.prepared.train), dtype=np.bool_)
    if not campaign.charter.settings.held_out:
        return prepared
    ids = prepared.dataset.places.ids
    for row, name in enumerate(prepared.dataset.people.ids):
        mine = np.flatnonzero(prepared.train.person == row)
        places = [ids[at] for at in prepared.train.place[mine]]
        held[mine] = held_out(deployment.people[name], places, share=campaign.charter.settings.held_out)
    return replace(prepared, train=prepared.train.take(~held), test=prepared.train.take(held))


def set_up_as_deployed(deployment: Deployment, campaign: Campaign) -> Setup:
    """As a simulation would have it, with the popularity that the deployment released."""
    assert campaign.edition is not None
    fetch = deployment.store.document
    popular = Catalogue.read(campaign.edition.manifest, fetch, basis=campaign).known.counted
    prepared = parted(deployment, campaign)
    own = noisy_sums(prepared, campaign.settings).own  # whatever the noise
    release = NoisySums(np.concatenate([popular.sums, *popular.values.T]), popular.sigma, own)
    prior = Prior(popular.predicted, popular.sigma, popular.shape)
    columns = {name: popular.released[:, at] for at, name in enumerate(popular.names)}
    if POPULARITY not in columns:
        raise AssertionError("nothing rises out of the noise: that devices leave out their own part is not seen")
    counts = SecureSum()._seen(
        reporting(prepared, campaign.settings), release, PublicEstimate(columns, prior, popular.weight)
    )
    assert all(same_bits(counts.released[name], column) for name, column in columns.items())
    samples = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=campaign.encoding, popularity=counts,
        earlier=only_earlier(campaign.settings.data),
    )  # fmt: skip
    return Setup(campaign.settings, prepared, counts, campaign.encoding, samples)


def samples_of(deployment: Deployment, campaign: Campaign) -> Samples:
    return set_up_as_deployed(deployment, campaign).samples


def figures_added(deployment: Deployment, campaign: Campaign, state: RoundsState) -> dict[str, np.ndarray]:
    """What a simulation adds to the sum of quality figures for each person, by name."""
    setup = set_up_as_deployed(deployment, campaign)
    models, samples = local.Rounds(setup.samples, campaign.settings, threads=1).models(state), setup.samples
    hits = hits_of_all(Advisor.of(setup, models), k=FIRST)
    test, found = samples.test, scoring.scores(models, samples, samples.test)
    rows = contributions(test.label, found, hits, offsets=test.offsets, norm=campaign.figures.norm)
    return dict(zip(samples.ids, rows, strict=True))


def simulated(
    samples: Samples, campaign: Campaign, drawn: Mapping[str, Entropy], monkeypatch: pytest.MonkeyPatch
) -> tuple[RoundsState, np.ndarray]:
    """The campaign by the fast engine, with the devices' own shares in the place of simulated noise: what is public,
    and everyone's coefficients."""

    def shares(wanted: int, count: int, *, rostered: int, where: NoiseKey, **rest: object) -> np.ndarray:
        assert rostered == len(samples.ids)
        return drawn_noise(campaign, where, [drawn[name] for name in samples.ids], rostered=rostered)

    monkeypatch.setattr(definition, "simulated_noise", shares)
    engine = local.Rounds(samples, campaign.settings, threads=1)
    state = engine.start()
    for _ in range(campaign.settings.iterations):
        engine.advance(state)
    models = engine.models(state)
    return state, np.stack([scoring.own_model(models, samples, i) for i in range(len(samples.ids))])


def by_the_oracle(
    samples: Samples, campaign: Campaign, drawn: Mapping[str, Entropy], patch: pytest.MonkeyPatch, *, without: set[str]
) -> RoundsState:
    """The same by engines/plain, with some people on every roster and in no sum."""
    there = [i for i, name in enumerate(samples.ids) if name not in without]

    def shares(wanted: int, count: int, *, where: NoiseKey, **rest: object) -> np.ndarray:
        some = [drawn[samples.ids[i]] for i in there]
        return drawn_noise(campaign, where, some, rostered=len(samples.ids))

    patch.setattr(plain, "simulated_noise", shares)
    patch.setattr(plain, "present_in", lambda *given: plain.Present(list(range(len(samples.ids))), there))
    patch.setattr(plain, "mix", lambda key, person: samples.keys.tolist().index(person))
    patch.setattr(plain, "uniform", lambda at: 0.0 if at in there else -1.0)  # who is lost from the sum of moments
    engine = plain.Rounds(samples, campaign.settings)
    state = engine.start()
    for _ in range(campaign.settings.iterations):
        engine.advance(state)
    return state


def by_the_oracle_in_windows(
    samples: Samples, campaign: Campaign, noise_in: Mapping[NoiseKey, np.ndarray], patch: pytest.MonkeyPatch, *,
    reported: Mapping[NoiseKey, set[str]],
) -> RoundsState:  # fmt: skip
    """By engines/plain, with those people in each sum who reported in its window, and the noise that both operators
    drew for it."""
    rows = {where: [i for i, name in enumerate(samples.ids) if name in names] for where, names in reported.items()}
    everyone, first = list(range(len(samples.ids))), rows["moments", 0]
    patch.setattr(plain, "simulated_noise", lambda wanted, count, *, where, **rest: noise_in[where])
    patch.setattr(plain, "present_in", lambda samples, settings, t: plain.Present(everyone, rows["interaction", t]))
    patch.setattr(plain, "mix", lambda key, person: samples.keys.tolist().index(person))
    patch.setattr(plain, "uniform", lambda at: 0.0 if at in first else -1.0)  # who is lost from the sum of moments
    engine = plain.Rounds(samples, campaign.settings)
    state = engine.start()
    for _ in range(campaign.settings.iterations):
        engine.advance(state)
    return state


def drawn_noise(campaign: Campaign, where: NoiseKey, drawn: list[Entropy], *, rostered: int) -> np.ndarray:
    """What these devices' shares come to. A device draws for visits, then for moments, then in each round."""
    kind, t = str(where[0]), int(where[1])
    terms = _terms(campaign, kind)
    at = 1 if kind == "moments" else 2 + t
    shares = [noise.draw_noise(terms, rostered, seed=secure_sum.noise_seed(one.drawn[at])) for one in drawn]
    return np.sum(shares, axis=0, dtype=np.uint64)


def _terms(campaign: Campaign, kind: str) -> noise.Terms:
    if kind == "moments":
        return campaign.moments().terms
    return campaign.interaction(0, B=np.zeros(campaign.columns.groups.shape)).terms


def models_of(deployment: Deployment, samples: Samples) -> np.ndarray:
    """What each device recommends with, Bᵀ a_i + w_i, in the samples' order."""
    found = []
    for name in samples.ids:
        publication = View.of(deployment.people[name]).publication
        assert publication is not None
        found.append(own_model(deployment.people[name], published(*publication)))
    return np.stack(found)
