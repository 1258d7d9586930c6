import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.util.geography import NOWHERE, morton


def test_the_corners_of_the_world_have_the_first_and_last_codes():
    codes = morton(np.array([[-90.0, -180.0], [90.0, 180.0], [np.nan, 0.0]]))
    assert codes.tolist() == [0, 2**32 - 1, int(NOWHERE)]
    assert codes.dtype == np.uint64


@given(st.floats(-90, 90), st.floats(-180, 180))
def test_bits_of_latitude_and_longitude_alternate(latitude, longitude):
    code = int(morton(np.array([[latitude, longitude]]))[0])
    rows = min(int((latitude + 90) / 180 * 65536), 65535)
    columns = min(int((longitude + 180) / 360 * 65536), 65535)
    expected = sum((rows >> bit & 1) << 2 * bit + 1 | (columns >> bit & 1) << 2 * bit for bit in range(16))
    assert code == expected


def test_neighbours_in_order_are_nearer_than_at_random():
    location = np.random.default_rng(0).uniform((30, -110), (34, -106), size=(2_000, 2))
    ordered = location[np.argsort(morton(location))]
    step = np.linalg.norm(np.diff(ordered, axis=0), axis=1).mean()
    unordered = np.linalg.norm(np.diff(location, axis=0), axis=1).mean()
    assert step < unordered / 10


def test_a_place_off_the_globe_has_no_code():
    with pytest.raises(UsageError):
        morton(np.array([[91.0, 0.0]]))
