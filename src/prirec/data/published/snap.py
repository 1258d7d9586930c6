"""Gowalla and Brightkite check-ins with friendships, from the SNAP collection.

E. Cho, S. A. Myers, J. Leskovec: Friendship and mobility: user movement in location-based social networks, KDD 2011.

Files, tab-separated and without header, plain or gzipped, NAME being gowalla or brightkite:
- loc-NAME_totalCheckins.txt: user, time (2010-10-19T23:55:27Z), latitude, longitude, location id
- loc-NAME_edges.txt: user, friend; each friendship in both directions

Decided here: rows with an empty cell, with coordinates 0, 0 (and the location id of nothing but zeros that goes with
them in Brightkite) or outside the globe are left out and counted; a location's coordinates are the first seen; times
stay in UTC, as the local time is not published; friend_count is the number of different friends, 0 for people without
an edge; people without a check-in are left out.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.folder import Loaded
from prirec.data.published.frames import (
    LINE,
    Frames,
    counted,
    find,
    in_order,
    only_complete,
    read_rows,
    with_friend_counts,
)

if TYPE_CHECKING:
    import polars as pl

CHECKIN = ("user", "time", "lat", "lon", "poi")
EDGE = ("user", "friend")


def files(network: str) -> tuple[str, str]:
    return f"loc-{network}_totalCheckins.txt", f"loc-{network}_edges.txt"


def reader(network: str) -> Callable[[Path], Loaded]:
    """The reader of one of the two networks."""

    def read(source: Path) -> Loaded:
        """Check-ins, locations and numbers of friends."""
        checkins, edges = (find(source, name, f"{name}.gz") for name in files(network))
        rows, notes = _located(checkins)
        people = in_order(rows.select("user"), "user")
        return Frames(
            visits=rows.select("user", "poi", "time", LINE),
            pois=in_order(rows.select("poi", "lat", "lon", LINE), "poi"),
            users=with_friend_counts(people, read_rows(edges, EDGE).drop_nulls()),
            notes=notes,
            files={"visits": checkins, "pois": checkins, "users": edges},
        ).load(network)

    return read


def _located(file: Path) -> tuple["pl.DataFrame", list[str]]:
    import polars as pl

    text = read_rows(file, CHECKIN).with_columns(pl.col("lat", "lon").cast(pl.Float64, strict=False))
    rows, notes = only_complete(text, file=file)
    nowhere = ((pl.col("lat") == 0) & (pl.col("lon") == 0)) | pl.col("poi").str.contains("^0{2,}$")
    outside = (pl.col("lat").abs() > 90) | (pl.col("lon").abs() > 180)
    somewhere = rows.filter(~nowhere)
    located = somewhere.filter(~outside)
    notes += counted(rows.height - somewhere.height, "check-in", which=" at coordinates 0, 0", file=file)
    notes += counted(somewhere.height - located.height, "check-in", which=" outside the globe", file=file)
    return located, notes
