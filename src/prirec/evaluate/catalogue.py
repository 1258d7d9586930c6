"""Whether a saved run and the data at hand are of one city: their catalogues of places, which are public, tell.

Ids alone do not: many a city has a place called p001, and a person u001 whose model would answer there.
"""

from collections.abc import Iterator
from hashlib import blake2b
from math import isnan

import numpy as np

from prirec.data.dataset import Places
from prirec.data.place_words import describe_place
from prirec.engines.run_folder import Run
from prirec.errors import StateError
from prirec.types import KeyArray

_GRID = 1000  # cells a degree, each about 100 m: coordinates that were written less finely are no other city


def place_keys(places: Places) -> KeyArray:
    """(J,): what id and position of each place hash to; id and public words, where it has no position."""
    named = (f"{one}\0{where}" for one, where in zip(places.ids, _positions(places), strict=True))
    digests = (blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, person=b"prirec place") for text in named)
    return np.frombuffer(b"".join(digest.digest() for digest in digests), dtype="<u8").astype(np.uint64)


def refuse_another_city(saved: Run, places: Places) -> None:
    """StateError if the run knows no place of these data, or less than half of those it knows are where they were.

    Places may have come, gone and moved since; a run without a catalogue is known by the ids of its places alone."""
    row = {place: at for at, place in enumerate(places.ids)}
    known = np.array([[mine, row[one]] for mine, one in enumerate(saved.released.places) if one in row], dtype=np.int64)
    again = f"give the data that it was trained on ({saved.source}), or train again"
    if not len(known):
        raise StateError(f"no place of this run is in these data: it was trained on another city; {again}")
    if saved.catalogue is None:
        return
    if saved.catalogue.shape != (len(saved.released.places),):
        raise StateError("the catalogue of this run has not one key for each place")
    same = int((saved.catalogue[known[:, 0]] == place_keys(places)[known[:, 1]]).sum())
    if 2 * same < len(known):
        raise StateError(
            f"of {len(known):,} places that this run and these data both name {same:,} are the same: it was trained "
            f"on another city; {again}"
        )


def _positions(places: Places) -> Iterator[str]:
    nowhere = [(float("nan"), float("nan"))] * len(places)
    for row, (lat, lon) in enumerate(nowhere if places.location is None else places.location.tolist()):
        unknown = isnan(lat) or isnan(lon)
        yield describe_place(places, row) if unknown else f"{round(_GRID * lat)},{round(_GRID * lon)}"
