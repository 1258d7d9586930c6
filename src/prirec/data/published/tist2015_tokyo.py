"""Foursquare check-ins of Tokyo with profiles: the paper's first data set before its filter.

D. Yang, D. Zhang, B. Qu: Participatory cultural mapping based on collective behavior data in location based social
networks, ACM TIST 7(3), 2015; and D. Yang, D. Zhang, B. Qu, P. Cudré-Mauroux: PrivCheck, UbiComp 2016.

Files, tab-separated and without header:
- dataset_TIST2015_Checkins.txt: user, venue, UTC time ("Tue Apr 03 18:00:06 +0000 2012"), offset in minutes
- dataset_TIST2015_POIs.txt: venue, latitude, longitude, category, country code
- dataset_UbiComp2016_UserProfile_TKY.txt: user, gender, Twitter friends, Twitter followers

Decided here: the check-ins of the profiled people at venues in Japan within a box around Greater Tokyo (the published
files have no city for a venue); people without such a check-in and venues without one are left out; times are moved
to the local wall clock. Gender, friends and followers are the private features.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.folder import Loaded
from prirec.data.published.frames import (
    GENDER,
    LINE,
    Frames,
    collect,
    counted,
    find,
    in_order,
    only_complete,
    read_rows,
    scan_rows,
    utc_to_local,
)

if TYPE_CHECKING:
    import polars as pl

FILES = ("dataset_TIST2015_Checkins.txt", "dataset_TIST2015_POIs.txt", "dataset_UbiComp2016_UserProfile_TKY.txt")
SOUTH, NORTH, WEST, EAST = 35.3, 36.0, 139.2, 140.2  # from Hiratsuka to Koga, from Ome to Narita
CHECKIN = ("user", "poi", "stamp", "offset")
VENUE = ("poi", "lat", "lon", "category", "country")
PROFILE = ("user", "gender", "friends", "followers")


def read(source: Path) -> Loaded:
    """The paper's recipe before "POIs with at least 10 users", which is a later step."""
    import polars as pl

    checkins_file, venues_file, profiles_file = (find(source, name) for name in FILES)
    people, people_notes = read_profiles(profiles_file)
    venues, venue_notes = _venues(venues_file)
    rows = scan_rows(checkins_file, CHECKIN)
    rows = rows.join(people.lazy(), on="user", how="semi").join(venues.lazy(), on="poi", how="semi")
    visits = collect(rows, file=checkins_file, columns=CHECKIN).sort(LINE)  # a join in parts may change the order
    visits = visits.select("user", "poi", LINE, time=utc_to_local("stamp", "offset"))
    timed = visits.drop_nulls()
    notes = people_notes + venue_notes
    notes += counted(visits.height - timed.height, "check-in", which=" without a time", file=checkins_file)
    return Frames(
        visits=timed,
        pois=in_order(venues.join(timed, on="poi", how="semi").select(pl.exclude("country")), "poi"),
        users=in_order(people.join(timed, on="user", how="semi"), "user"),
        declared={"users.gender": GENDER},
        notes=notes,
        files={"visits": checkins_file, "pois": venues_file, "users": profiles_file},
    ).load("tist2015-tokyo")


def read_profiles(file: Path) -> tuple["pl.DataFrame", list[str]]:
    """The UbiComp 2016 profiles: user, gender, friends, followers."""
    import polars as pl

    rows = read_rows(file, PROFILE).with_columns(pl.col("friends", "followers").cast(pl.Int64, strict=False))
    return only_complete(rows, file=file)


def _venues(file: Path) -> tuple["pl.DataFrame", list[str]]:
    import polars as pl

    rows = read_rows(file, VENUE).with_columns(pl.col("lat", "lon").cast(pl.Float64, strict=False))
    complete, notes = only_complete(rows, file=file)
    inside = pl.col("lat").is_between(SOUTH, NORTH) & pl.col("lon").is_between(WEST, EAST)
    return complete.filter((pl.col("country") == "JP") & inside), notes
