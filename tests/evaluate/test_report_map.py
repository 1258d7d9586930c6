"""The map: true to scale, limited in size, and silent about what is unknown."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.evaluate.plots import MOST, WIDTH, City, draw_map, frame_of
from prirec.util.geography import haversine_km


def city(homes: np.ndarray, *, places: np.ndarray | None = None) -> City:
    spots = homes if places is None else places
    return City(spots, np.arange(len(spots)), homes)


def square(latitude: float, longitude: float, *, side: float = 0.2) -> np.ndarray:
    steps = np.linspace(-side / 2, side / 2, 11)
    return np.array([(latitude + a, (longitude + b + 180) % 360 - 180) for a in steps for b in steps])


def dots(svg: str, group: str) -> int:
    part = svg[svg.index(f'<g class="{group}">') :]
    return part[: part.index("</g>")].count("h0")


@given(st.floats(-70, 70), st.floats(-180, 180))
def test_a_pixel_is_equally_many_kilometres_in_every_direction(latitude: float, longitude: float) -> None:
    homes = square(latitude, longitude)
    frame = frame_of(city(homes))
    assert frame is not None
    middle, east, north = homes[60], homes[62], homes[82]
    pixels = frame.pixels(np.array([middle, east, north]))
    for other, at in ((east, 1), (north, 2)):
        drawn = float(np.hypot(*(pixels[at] - pixels[0])))
        assert drawn == pytest.approx(float(haversine_km(middle, other)) * frame.scale, rel=0.01)
    assert pixels[1][0] > pixels[0][0]  # east is right
    assert pixels[2][1] < pixels[0][1]  # north is up


def test_a_few_far_points_do_not_shrink_the_city() -> None:
    homes = np.concatenate([np.tile(square(35, 139), (10, 1)), [[-35.0, -58.0]]])
    frame = frame_of(city(homes))
    assert frame is not None
    assert frame.span.max() < 30
    assert dots(draw_map(city(homes), frame), "people") == len(homes) - 1


def test_unknown_locations_are_not_drawn() -> None:
    homes = np.concatenate([square(35, 139), [[np.nan, np.nan]]])
    frame = frame_of(city(homes))
    assert frame is not None
    assert "nan" not in draw_map(city(homes), frame)
    assert frame_of(city(np.full((3, 2), np.nan))) is None


def test_a_city_in_one_point_or_on_one_line_has_a_map() -> None:
    for homes in (np.array([[35.0, 139.0]] * 3), np.column_stack([np.full(20, 35.0), np.linspace(139, 140, 20)])):
        frame = frame_of(city(homes))
        assert frame is not None
        assert 0.4 * WIDTH < frame.height < 1.2 * WIDTH
        assert dots(draw_map(city(homes), frame), "people") == len(homes)


def test_a_large_city_is_thinned_out() -> None:
    homes = np.random.default_rng(0).normal((35, 139), 0.1, size=(50_000, 2))
    made = city(homes)
    frame = frame_of(made)
    assert frame is not None
    svg = draw_map(made, frame)
    assert 0.9 * MOST < dots(svg, "people") <= MOST
    assert dots(svg, "places") <= MOST
    assert len(svg) < 150_000


def test_the_scale_is_a_round_number_of_the_right_length() -> None:
    homes = square(0.0, 10.0, side=0.5)
    frame = frame_of(city(homes))
    assert frame is not None
    found = re.search(r'v6h(\d+)v-6"/><text[^>]*>(\d+) km<', draw_map(city(homes), frame))
    assert found is not None
    assert int(found[2]) in (1, 2, 5, 10, 20)
    assert int(found[1]) == pytest.approx(int(found[2]) * frame.scale, abs=1)
