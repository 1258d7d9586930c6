"""Describes a data set: Table 2 of the paper, and how records are spread over people and places."""

from dataclasses import asdict, dataclass

import numpy as np

from prirec.data.dataset import Dataset
from prirec.data.prepare import distinct_pairs, distinct_visitors
from prirec.types import DAY, RealArray


@dataclass(frozen=True, slots=True)
class Spread:
    """How a count varies over people or places; all zero where there is none."""

    least: int
    median: float
    mean: float
    most: int

    def __str__(self) -> str:
        return f"{self.least:,} / {self.median:,.1f} / {self.mean:,.1f} / {self.most:,}"


@dataclass(frozen=True, slots=True)
class Description:
    """The statistics of a data set. What cannot be known, such as times that were not given, is None."""

    name: str
    labelled: bool
    people: int
    places: int
    records: int
    positive_share: float | None
    density: float | None  # pairs of a person and a place with a record, among all pairs
    records_a_person: Spread
    visitors_a_place: Spread  # different people with a visit or click
    first_time: str | None  # ISO 8601, local
    last_time: str | None
    days: float | None  # from the first to the last
    located_people: float | None  # share with coordinates
    located_places: float | None

    def rows(self) -> list[tuple[str, str]]:
        """Name and text of each line of a table."""
        return [
            ("#user", f"{self.people:,}"),
            ("#item", f"{self.places:,}"),
            ("#interaction", f"{self.records:,}"),
            ("labels", "clicked and ignored" if self.labelled else "visits only"),
            ("positive share", _percent(self.positive_share)),
            ("density", _percent(self.density)),
            ("records a person (least / median / mean / most)", str(self.records_a_person)),
            ("visitors a place (least / median / mean / most)", str(self.visitors_a_place)),
            ("first record", self.first_time or "unknown"),
            ("last record", self.last_time or "unknown"),
            ("days", "unknown" if self.days is None else f"{self.days:,.1f}"),
            ("people with coordinates", _percent(self.located_people)),
            ("places with coordinates", _percent(self.located_places)),
        ]

    def to_dict(self) -> dict[str, object]:
        """Plain numbers and texts, ready for JSON."""
        return asdict(self)


def describe(dataset: Dataset) -> Description:
    """Table 2's #user, #item and #interaction, with what the data show beside them."""
    # Nothing here is noisy: a description of private data is for whoever holds them, and not to be published.
    visits, people, places = dataset.visits, len(dataset.people), len(dataset.places)
    first, last, days = _span(dataset)
    return Description(
        name=dataset.name,
        labelled=dataset.labelled,
        people=people,
        places=places,
        records=len(visits),
        positive_share=float(np.mean(visits.label > 0)) if len(visits) else None,
        density=len(distinct_pairs(visits, places=places)) / (people * places) if people and places else None,
        records_a_person=_spread(np.bincount(visits.person, minlength=people)),
        visitors_a_place=_spread(distinct_visitors(dataset)),
        first_time=first,
        last_time=last,
        days=days,
        located_people=_located(dataset.people.location, people),
        located_places=_located(dataset.places.location, places),
    )


def _spread(counts: np.ndarray) -> Spread:
    if not len(counts):
        return Spread(0, 0.0, 0.0, 0)
    return Spread(int(counts.min()), float(np.median(counts)), float(counts.mean()), int(counts.max()))


def _span(dataset: Dataset) -> tuple[str | None, str | None, float | None]:
    time = dataset.visits.time
    if time is None or not len(time):
        return None, None, None
    first, last = int(time.min()), int(time.max())
    return str(np.datetime64(first, "s")), str(np.datetime64(last, "s")), (last - first) / DAY


def _located(location: RealArray | None, count: int) -> float | None:
    if not count:
        return None
    return 0.0 if location is None else float(np.mean(np.isfinite(location).all(axis=1)))


def _percent(share: float | None) -> str:
    return "unknown" if share is None else f"{100 * share:.3g} %"
