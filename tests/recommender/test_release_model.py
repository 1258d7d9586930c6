"""What is published for recommending: the places' half of Eq. (1) and the starts, to the bits of a simulation."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from h3.api import basic_int as h3
from prirec.rounds.newcomers import starts

from prirec.engines.train import start
from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols.prediction import PlacePart
from prirec.recommender.release import Catalogue, publication
from prirec.wire.documents import Publication, Start, octets, written
from prirec.wire.regions import read_publication, read_regions, refuse_other_places
from support import messages
from support.campaigns import Staged, staged
from support.cities import same_bits, small_city, without_coordinates

CITY = small_city(people=150, places=60, records=900)
CITIES = {
    "usual": lambda: staged(CITY),
    "fine regions": lambda: staged(CITY, resolution=6),
    "no coordinates": lambda: staged(without_coordinates(CITY)),
}


@pytest.fixture(scope="module", params=CITIES)
def both(request) -> Staged:
    return CITIES[request.param]()


def models(both: Staged, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Some V, and some mean for each cohort."""
    rng, D = np.random.default_rng(seed), both.setup.samples.features
    return rng.normal(size=(D, 5)), rng.normal(size=(both.edited.document.cohorts, D + 1))


def published(both: Staged):
    V, means = models(both)
    return publication(both.campaign, both.edited.catalogue, both.lines, iteration=3, V=V, means=means)


def test_the_places_half_is_the_one_that_a_simulation_recommends_with(both):
    issued, (V, _) = published(both), models(both)
    known = read_regions(
        issued.catalogue.manifest, {**both.bodies, **dict(issued.documents)}.__getitem__, campaign=both.campaign
    )
    samples = both.setup.samples
    part = PlacePart.of(V, samples.catalogue, first=samples.people.shape[1])
    assert same_bits(known.part.pull, part.pull)
    assert same_bits(known.part.square, part.square)


def test_starts_are_those_of_a_simulation_with_the_same_cohorts(both):
    issued, (V, means) = published(both), models(both)
    found = read_publication(issued.document, campaign=both.campaign)
    state = replace(start(both.setup.samples, both.campaign.settings), means=means)
    expected = starts(both.setup.samples, both.campaign.settings, linear=state.linear, means=state.means)
    assert same_bits(found.starts.cells, expected.cells)
    assert same_bits(found.starts.models, expected.models)
    assert same_bits(found.interaction, V)


def test_a_publication_names_everything_that_it_needs(both):
    issued = published(both)
    everything = {**both.bodies, **dict(issued.documents)}
    assert issued.name == written(issued.document)[0] in everything
    assert issued.document.edition == both.edited.name in everything
    assert issued.document.manifest in everything
    refuse_other_places(issued.catalogue.manifest, than=both.static.manifest)
    for line, before in zip(issued.catalogue.manifest.regions, both.edited.catalogue.manifest.regions, strict=True):
        assert line.counts == before.counts
        assert line.parts in everything


def test_a_recommender_that_has_restarted_publishes_the_same_bytes(both):
    V, means = models(both)
    kept = Catalogue.read(both.edited.catalogue.name, both.bodies.__getitem__, campaign=both.campaign)
    again = publication(both.campaign, kept, both.lines, iteration=3, V=V, means=means)
    assert again.documents == published(both).documents


def test_crowded_cells_have_starts_of_their_own():
    both = CITIES["usual"]()
    assert len(published(both).document.starts) > 1


def test_models_of_another_size_are_not_published():
    both = CITIES["usual"]()
    V, means = models(both)
    for other in ({"V": V[1:], "means": means}, {"V": V[:, 1:], "means": means}, {"V": V, "means": means[:, 1:]}):
        with pytest.raises(UsageError, match=messages.MODELS_NOT_OF_THE_EDITION):
            publication(both.campaign, both.edited.catalogue, both.lines, iteration=3, **other)
    with pytest.raises(UsageError, match=messages.MODEL_WITHOUT_AN_EDITION):
        publication(
            both.campaign_without_edition, both.edited.catalogue, both.lines, iteration=3, V=V, means=means
        )  # fmt: skip


BOTH = staged(CITY)
GOOD = published(BOTH).document
WIDE = BOTH.setup.samples.features + 1
MODEL = octets(np.ones(WIDE), np.float64)


@pytest.mark.parametrize(
    "changes",
    [
        {"interaction": GOOD.interaction[8:]},
        {"interaction": octets(np.full((WIDE - 1, 5), np.nan), np.float64)},
        {"starts": ()},
        {"starts": GOOD.starts[1:]},
        {"starts": (GOOD.starts[0], *GOOD.starts)},
        {"starts": (GOOD.starts[0], *reversed(GOOD.starts[1:]))},
        {"starts": (Start(0, MODEL), Start(5, MODEL))},
        {"starts": (Start(0, MODEL[8:]),)},
        {"starts": (Start(0, octets(np.full(WIDE, np.inf), np.float64)),)},
    ],
)
def test_a_publication_that_does_not_fit_is_refused(changes):
    with pytest.raises(PeerError) as refused:
        read_publication(msgspec.structs.replace(GOOD, **changes), campaign=BOTH.campaign)
    assert refused.value.fault is Fault.DECODE


def test_a_publication_of_another_edition_is_refused():
    other = msgspec.structs.replace(GOOD, edition=bytes(32))
    with pytest.raises(PeerError) as refused:
        read_publication(other, campaign=BOTH.campaign)
    assert refused.value.fault is Fault.PARAMS_MISMATCH
    with pytest.raises(UsageError, match=messages.PUBLICATION_WITHOUT_ITS_EDITION):
        read_publication(GOOD, campaign=BOTH.campaign_without_edition)


def test_a_newcomer_finds_the_starting_model_of_their_cell():
    found = read_publication(GOOD, campaign=BOTH.campaign)
    named = GOOD.starts[-1]
    finest = h3.cell_to_center_child(named.cell, 9)
    assert found.starts.for_cells(np.array([finest], dtype=np.uint64))[0].tobytes() == named.model
    assert isinstance(GOOD, Publication)
    assert "array" not in repr(found)
