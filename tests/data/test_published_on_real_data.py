"""The real files, where there are any: the counts that are known of them."""

import os
from pathlib import Path

import pytest

from prirec.data.published import import_published

DATA = os.environ.get("PRIREC_DATA")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA, reason="PRIREC_DATA names no folder with the real data"),
]


def sizes(name, tmp_path):
    loaded = import_published(name, Path(DATA) / name.replace("-", "_"), tmp_path / name, table_format="parquet")
    data = loaded.dataset
    return data, (len(data.people), len(data.places), len(data.visits)), loaded.notes


def test_foursquare_tokyo_has_the_known_size(tmp_path):
    data, counts, notes = sizes("foursquare-tokyo", tmp_path)
    assert counts == (7_179, 10_856, 245_275)
    assert set(data.people.columns) == {"friend_count"}
    assert notes == ("users.csv: 53 users without a visit left out",)


def test_foursquare_tokyo_profiles_has_the_known_size(tmp_path):
    data, counts, notes = sizes("foursquare-tokyo-profiles", tmp_path)
    assert counts == (930, 276, 3_012 - 465)
    assert notes == ("465 duplicate visits left out",)
    assert data.people.columns["gender"].words == ("female", "male")


def test_yelp_has_the_known_size(tmp_path):
    data, counts, notes = sizes("yelp", tmp_path)
    assert counts == (7_135, 16_621, 285_608)
    assert len(data.places.columns["category"].words) == 595
    assert data.people.columns["friend_count"].values.sum() == 2 * 46_778  # no friendship is listed twice
    assert notes == ()


def test_trivago_has_the_known_size(tmp_path):
    data, counts, notes = sizes("trivago", tmp_path)
    assert counts == (6_593, 106_866, 312_539 - 1_052)
    assert int((data.visits.label > 0).sum()) == 13_596 - 48  # a later click on a repeated row goes with its row
    assert notes == ("1,052 duplicate visits left out",)
