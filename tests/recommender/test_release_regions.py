"""The catalogue by region: each place in one region, whole regions in one document, the same bytes for everyone."""

from dataclasses import replace

import numpy as np
import pytest
from h3.api import basic_int as h3

from prirec.config import Features
from prirec.data.dataset import Category, Dataset, Numbers
from prirec.errors import DataError, PeerError, StateError, UsageError
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.recommender.release import Catalogue, document_page, pack_regions
from prirec.wire.documents import LIMIT, Manifest, Places, address, read
from prirec.wire.regions import KnownPlaces, read_regions, refuse_other_places, region_documents
from support import messages
from support.campaigns import staged
from support.cities import same_bits, small_city, without_coordinates

CITY = small_city(people=60, places=50, records=300)
BOTH = staged(CITY)


def packed(city: Dataset, resolution: int = 5) -> Catalogue:
    return pack_regions(city.places, plan_encoding(city, Popularity(), Features()), resolution=resolution)


def pages(catalogue: Catalogue) -> list[Places]:
    bodies = dict(catalogue.documents)
    return [read(Places, bodies[line.places], name=line.places) for line in catalogue.manifest.regions]


def test_every_place_is_in_the_region_of_its_cell_and_in_no_other():
    catalogue = packed(CITY)
    assert len(catalogue.manifest.regions) > 3
    where = {place: one.cell for one in pages(catalogue) for place in one.ids}
    assert sum(len(one.ids) for one in pages(catalogue)) == len(where) == len(CITY.places)
    for place, (lat, lon) in zip(CITY.places.ids, CITY.places.location.tolist(), strict=True):
        assert where[place] == h3.latlng_to_cell(lat, lon, 5)


def test_places_without_coordinates_have_a_region_of_their_own():
    location = CITY.places.location.copy()
    location[3], location[11, 1] = np.nan, np.nan  # half a location is none
    catalogue = packed(replace(CITY, places=replace(CITY.places, location=location)))
    nowhere = pages(catalogue)[0]
    assert (nowhere.cell, nowhere.ids) == (0, (CITY.places.ids[3], CITY.places.ids[11]))
    assert [line.cell for line in packed(without_coordinates(CITY)).manifest.regions] == [0]


def test_the_same_places_have_the_same_bytes():
    assert packed(CITY).documents == packed(CITY).documents
    assert [name for name, _ in packed(CITY).documents] == [address(body) for _, body in packed(CITY).documents]
    assert packed(CITY).name == packed(CITY).documents[-1][0]


def test_a_change_in_one_region_leaves_the_documents_of_the_others_as_they_are():
    location = CITY.places.location.copy()
    location[0] += 1e-6
    before, after = packed(CITY), packed(replace(CITY, places=replace(CITY.places, location=location)))
    changed = {name for name, _ in before.documents} ^ {name for name, _ in after.documents}
    assert len(changed) == 4  # a region and the manifest, each before and after


def test_an_edition_adds_counts_and_leaves_places_as_they_are():
    static, counted = BOTH.static.manifest, BOTH.edited.catalogue.manifest
    refuse_other_places(counted, than=static)
    assert all(line.counts for line in counted.regions)
    assert not any(line.counts for line in static.regions)
    with pytest.raises(PeerError, match=messages.CATALOGUE_OF_OTHER_PLACES):
        refuse_other_places(Manifest(5, counted.regions[1:]), than=static)
    with pytest.raises(PeerError, match=messages.CATALOGUE_OF_OTHER_PLACES):
        refuse_other_places(Manifest(4, counted.regions), than=static)


def test_a_download_names_whole_regions_and_nothing_else():
    manifest = BOTH.edited.catalogue.manifest
    one = manifest.regions[1]
    assert region_documents(manifest, {one.cell}) == (one.places, one.counts)
    assert region_documents(manifest, {5}) == ()
    assert {*region_documents(manifest)} | {BOTH.edited.catalogue.name} < {*BOTH.bodies}


def test_what_is_read_back_from_documents_is_what_was_packed():
    packed_up, read_back = BOTH.edited.catalogue.known, BOTH.known()
    assert (read_back.cells, read_back.ids, read_back.words) == (packed_up.cells, packed_up.ids, packed_up.words)
    for name in ("rows", "location", "features", "region"):
        assert same_bits(getattr(read_back, name), getattr(packed_up, name))
    for name in ("released", "sums", "predicted", "weight"):
        assert same_bits(getattr(read_back.counted, name), getattr(packed_up.counted, name))


def test_a_catalogue_that_was_kept_is_packed_on_to_the_same_bytes():
    """A recommender that has restarted has nothing but its documents."""
    kept = Catalogue.read(BOTH.static.name, BOTH.bodies.__getitem__, basis=BOTH.campaign_without_edition)
    assert not kept.documents
    assert kept.with_counts(BOTH.edited.catalogue.known.counted).documents == BOTH.edited.catalogue.documents


def test_a_kept_catalogue_without_all_its_places_is_refused():
    manifest = Manifest(5, BOTH.static.manifest.regions[1:])
    name, body = document_page(manifest)
    with pytest.raises(StateError, match=messages.CATALOGUE_WITHOUT_THE_CAMPAIGNS_PLACES):
        Catalogue.read(name, {**BOTH.bodies, name: body}.__getitem__, basis=BOTH.campaign_without_edition)


def test_places_are_found_by_their_ids():
    known = BOTH.known()
    assert known.positions([known.ids[7], "nowhere", known.ids[0]]).tolist() == [7, -1, 0]
    assert known.positions([]).tolist() == []


def test_no_region_at_all_is_a_catalogue_without_places():
    known = BOTH.known((5,))
    assert (len(known), known.cells) == (0, ())
    assert known.catalogue(BOTH.campaign.encoding).shape == (0, BOTH.setup.samples.catalogue.shape[1])


def test_popularity_is_not_known_before_the_sum_is_open():
    static = BOTH.static
    known = read_regions(static.manifest, BOTH.bodies.__getitem__, basis=BOTH.campaign_without_edition)
    assert isinstance(known, KnownPlaces)
    assert known.popular is None
    with pytest.raises(UsageError, match=messages.POPULARITY_NOT_YET_KNOWN):
        known.catalogue(BOTH.campaign.encoding)


def test_words_on_a_place_are_short_and_can_be_shown():
    words = Category(np.zeros(50, dtype=np.int32), ("tea\x1b[31m\nhouse　" + "long " * 60,))
    city = replace(CITY, places=replace(CITY.places, columns={"kind": words}))
    shown = packed(city).known.words[0]
    assert shown.startswith("tea [31m house long")
    assert shown.isprintable()
    assert len(shown) == 200


PRICES = Numbers(np.arange(50.0))
PRICED = replace(CITY, places=replace(CITY.places, columns={"price": PRICES}))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ids": ("p\x1b", *CITY.places.ids[1:])}, messages.PLACE_ID_NOT_PRINTABLE),
        ({"ids": ("same", "same", *CITY.places.ids[2:])}, messages.PLACE_TWICE),
        ({"ids": (), "location": None}, messages.NO_PLACE),
        (
            {"columns": {"price": Numbers(np.where(PRICES.values == 3, np.inf, PRICES.values))}},
            messages.FEATURE_OF_A_PLACE_NOT_FINITE,
        ),
    ],
)
def test_places_that_devices_would_refuse_are_not_published(change, problem):
    encoding = plan_encoding(PRICED, Popularity(), Features())
    with pytest.raises(DataError, match=problem), np.errstate(over="ignore"):
        pack_regions(replace(PRICED.places, **change), encoding)


@pytest.mark.parametrize("resolution", [-1, 7])
def test_regions_have_a_resolution_that_a_manifest_can_say(resolution):
    with pytest.raises(UsageError, match=messages.resolution_of_regions(6)):
        packed(CITY, resolution)


def test_a_region_too_large_for_a_document_is_refused():
    with pytest.raises(UsageError, match=messages.REGION_TOO_LARGE):
        document_page(Places(0, (), (), b"", b"", bytes(LIMIT)))


def test_catalogues_do_not_print_their_places():
    known = BOTH.known()
    assert CITY.places.ids[0] not in repr(known)
    assert "array" not in repr(known) + repr(BOTH.edited.catalogue)
