"""A map of a simulated city: places, and people coloured by cohort. Only a simulation knows where everyone lives.

Drawn without a plotting library: a dot costs a dozen bytes, and takes its colour from the page.
"""

from dataclasses import dataclass, field

import numpy as np

from prirec.geography import EARTH_RADIUS_KM
from prirec.types import IndexArray, RealArray

MOST = 4000  # dots of each kind; more would only hide each other
KM_A_DEGREE = np.pi * EARTH_RADIUS_KM / 180
WIDTH = 640
COLOURS = 7  # of the style sheet's eight; the last is the grey of places
_SIZES = (3.0, 5.0, 8.0, 12.0)  # diameters of places, from the least visited quarter up


@dataclass(frozen=True, slots=True)
class City:
    """What a map shows. Locations (n, 2) are latitude and longitude in degrees, NaN where unknown. Private."""

    places: RealArray = field(repr=False)
    visitors: np.ndarray = field(repr=False)  # (J,)
    homes: RealArray = field(repr=False)
    cohort: IndexArray | None = field(repr=False)  # (I,)


@dataclass(frozen=True, slots=True)
class Frame:
    """Equirectangular around the city's middle, so that a kilometre is equally long in both directions."""

    middle: tuple[float, float]
    low: RealArray = field(repr=False)  # (2,) kilometres east and north of the middle
    span: RealArray = field(repr=False)  # (2,)

    @property
    def scale(self) -> float:
        """Pixels a kilometre."""
        return WIDTH / float(self.span[0])

    @property
    def height(self) -> int:
        return round(float(self.span[1]) * self.scale)

    def pixels(self, location: RealArray) -> RealArray:
        """(n, 2) across and down; NaN for what is unknown or outside."""
        away = (_kilometres(location, self.middle) - self.low) / self.span
        away[~((away >= 0) & (away <= 1)).all(axis=1)] = np.nan
        return np.column_stack([away[:, 0], 1 - away[:, 1]]) * (WIDTH, self.height)


def frame_of(city: City) -> Frame | None:
    """The frame that holds nearly everything: a few far-off points must not shrink the rest. None without points."""
    points = np.concatenate([city.places, city.homes])
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        return None
    around = points[0, 1] + _turned(points[:, 1] - points[0, 1])
    middle = float(np.median(points[:, 0])), float(np.median(around))
    low, high = np.quantile(_kilometres(points, middle), [0.002, 0.998], axis=0)
    wanted = np.maximum(1.06 * (high - low), 0.1)
    span = np.array([max(wanted[0], wanted[1] / 1.1), max(wanted[1], wanted[0] / 2.2)])
    return Frame(middle, (low + high - span) / 2, span)


def draw_map(city: City, frame: Frame) -> str:
    """The map as SVG: places below, people above, and a scale."""
    label = "map of the city: places in grey, people coloured by cohort"
    return (
        f'<svg class="map" viewBox="0 0 {WIDTH} {frame.height}" role="img" aria-label="{label}">\n'
        f'<g class="places">{_places(city, frame)}</g>\n<g class="people">{_people(city, frame)}</g>\n'
        f"{_scale_bar(frame)}</svg>"
    )


def colours_of(homes: RealArray, cohort: IndexArray) -> IndexArray:
    """A colour for each cohort: the one whose nearest cohort of the same colour is farthest away."""
    count = int(cohort.max(initial=-1)) + 1
    centres = _centres(homes, cohort, count)
    colour = np.full(count, -1, dtype=np.int32)
    nearest = np.empty(COLOURS)
    for at in range(count):
        away = np.hypot(*(centres[:at] - centres[at]).T)
        nearest.fill(np.inf)
        np.minimum.at(nearest, colour[:at], away)
        colour[at] = int(np.argmax(nearest))
    return colour


def _centres(homes: RealArray, cohort: IndexArray, count: int) -> RealArray:
    """(C, 2): the mean home of each cohort; the origin for a cohort of people without a home."""
    known = np.isfinite(homes).all(axis=1)
    members = np.bincount(cohort[known], minlength=count)
    sums = [np.bincount(cohort[known], weights=homes[known, axis], minlength=count) for axis in (0, 1)]
    return np.column_stack(sums) / np.maximum(members, 1)[:, None]


def _places(city: City, frame: Frame) -> str:
    spots, visitors = _some(city.places), city.visitors[_every(len(city.places))]
    pixels = frame.pixels(spots)
    steps = np.quantile(visitors, [0.25, 0.5, 0.75]) if len(visitors) else np.zeros(3)
    size = np.searchsorted(steps, visitors)
    return "".join(_dots(pixels[size == at], f'stroke-width="{width:g}"') for at, width in enumerate(_SIZES))


def _people(city: City, frame: Frame) -> str:
    pixels = frame.pixels(_some(city.homes))
    if city.cohort is None:
        return _dots(pixels, 'stroke="var(--series-0)"')
    colour = colours_of(city.homes, city.cohort)[city.cohort[_every(len(city.homes))]]
    return "".join(_dots(pixels[colour == at], f'stroke="var(--series-{at})"') for at in range(COLOURS))


def _dots(pixels: RealArray, look: str) -> str:
    """One path for all dots: strokes of no length with round ends."""
    known = pixels[np.isfinite(pixels).all(axis=1)]
    return f'<path {look} d="{"".join(f"M{x:.0f} {y:.0f}h0" for x, y in known)}"/>' if len(known) else ""


def _every(rows: int) -> slice:
    """Evenly spaced rows, at most MOST of them. People stand along a curve through the city, so none of it is lost."""
    return slice(None, None, max(1, -(-rows // MOST)))


def _some(location: RealArray) -> RealArray:
    return location[_every(len(location))]


def _scale_bar(frame: Frame) -> str:
    """The longest of 1, 2, 5, 10, ... kilometres that takes at most a quarter of the width."""
    quarter = float(frame.span[0]) / 4
    power = 10.0 ** np.floor(np.log10(quarter))
    km = max(step * power for step in (1, 2, 5) if step * power <= quarter)
    left, down = 14, frame.height - 14
    bar = f"M{left} {down - 6}v6h{km * frame.scale:.0f}v-6"
    said = f"{km:g} km" if km >= 1 else f"{1000 * km:g} m"
    behind = f'<rect x="{left - 8}" y="{down - 36}" width="{km * frame.scale + 16:.0f}" height="44"/>'
    return f'<g class="scale">{behind}<path d="{bar}"/><text x="{left + 6}" y="{down - 8}">{said}</text></g>'


def _kilometres(location: RealArray, middle: tuple[float, float]) -> RealArray:
    """East and north of the middle."""
    east = _turned(location[:, 1] - middle[1]) * np.cos(np.radians(middle[0]))
    return np.column_stack([east, location[:, 0] - middle[0]]) * KM_A_DEGREE


def _turned(degrees: RealArray) -> RealArray:
    """The same angle between -180 and 180."""
    turned: RealArray = (degrees + 180.0) % 360.0 - 180.0
    return turned
