"""The part of the report that shows the city: places, and people by cohort."""

from collections.abc import Sequence

import numpy as np

from prirec.engines.circles import cohort_numbers
from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting.city_map import COLOURS, MOST, City, draw_map, frame_of
from prirec.evaluate.reporting.page import beside, paragraph, section


def map_of(entries: Sequence[Entry]) -> str:
    """Places, and people coloured by the cohort they learn in; nothing where the city has no coordinates."""
    entry = next((e for e in entries if e.contender.settings.schedule == "rounds"), entries[0])
    setup = entry.outcome.setup
    located, homes = setup.prepared.dataset.places.location, setup.samples.home
    if homes is None:
        return ""
    train, count = setup.prepared.train, len(setup.samples.places)
    grouped = entry.contender.settings.schedule == "rounds"
    cohort = cohort_numbers(setup.samples, entry.contender.settings) if grouped else None
    city = City(
        places=np.full((count, 2), np.nan) if located is None else located,
        visitors=np.bincount(train.place[train.label > 0], minlength=count),
        homes=homes,
        cohort=cohort,
    )
    frame = frame_of(city)
    return "" if frame is None else section("map", "The city", beside(draw_map(city, frame), *_about_map(city)))


def _about_map(city: City) -> list[str]:
    notes = [
        paragraph("Grey dots are places, larger ones with more visits. Coloured dots are people, where they live.")
    ]
    if city.cohort is not None:
        notes.append(paragraph(_about_cohorts(np.bincount(city.cohort))))
    if max(len(city.homes), len(city.places)) > MOST:
        notes.append(paragraph(f"At most {MOST:,} people and {MOST:,} places are drawn, evenly chosen.", kind="quiet"))
    notes.append(
        paragraph(
            "The report knows where people live only because this is a simulation. In a deployment nobody could draw "
            "this map: a device names a coarse cell and nothing finer.",
            kind="honest",
        )
    )
    return notes


def _about_cohorts(sizes: np.ndarray) -> str:
    sizes = sizes[sizes > 0]
    several = (
        " With so many, colours repeat; a crowded cell is parted at random, and its colours mix."
        if len(sizes) > COLOURS
        else ""
    )
    return (
        "A colour is a cohort: people whose linear models are summed up together in each round. The number of cohorts "
        f"is {len(sizes):,}, with {sizes.min():,} to {sizes.max():,} people each.{several}"
    )
