"""Readers of Foursquare check-ins: four published formats, the paper's first data set among them.

Each reader's docstring says who published the files, what is in them, and what was decided here.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.folder import Loaded
from prirec.data.published.common import (
    FRIENDS,
    GENDER,
    LINE,
    RECORD,
    Frames,
    collect,
    counted,
    find,
    in_order,
    only_complete,
    read_named,
    read_rows,
    scan_rows,
    utc_to_local,
)
from prirec.errors import DataError

if TYPE_CHECKING:
    import polars as pl

TIST2015_FILES = (
    "dataset_TIST2015_Checkins.txt",
    "dataset_TIST2015_POIs.txt",
    "dataset_UbiComp2016_UserProfile_TKY.txt",
)
SOUTH, NORTH, WEST, EAST = 35.3, 36.0, 139.2, 140.2  # from Hiratsuka to Koga, from Ome to Narita
TIST2015_CHECKIN = ("user", "poi", "stamp", "offset")
TIST2015_VENUE = ("poi", "lat", "lon", "category", "country")
PROFILE = ("user", "gender", "friends", "followers")


def read_tist2015(source: Path) -> Loaded:
    """Foursquare check-ins of Tokyo with profiles: the paper's first data set before its filter.

    D. Yang, D. Zhang, B. Qu: Participatory cultural mapping based on collective behavior data in location based social
    networks, ACM TIST 7(3), 2015; and D. Yang, D. Zhang, B. Qu, P. Cudré-Mauroux: PrivCheck, UbiComp 2016.

    Files, tab-separated and without header:
    - dataset_TIST2015_Checkins.txt: user, venue, UTC time ("Tue Apr 03 18:00:06 +0000 2012"), offset in minutes
    - dataset_TIST2015_POIs.txt: venue, latitude, longitude, category, country code
    - dataset_UbiComp2016_UserProfile_TKY.txt: user, gender, Twitter friends, Twitter followers

    Decided here: the check-ins of the profiled people at venues in Japan within a box around Greater Tokyo (the
    published files have no city for a venue); people without such a check-in and venues without one are left out; times
    are moved to the local wall clock. Gender, friends and followers are the private features.
    """
    import polars as pl

    checkins_file, venues_file, profiles_file = (find(source, name) for name in TIST2015_FILES)
    people, people_notes = read_profiles(profiles_file)
    venues, venue_notes = _tist2015_venues(venues_file)
    rows = scan_rows(checkins_file, TIST2015_CHECKIN)
    rows = rows.join(people.lazy(), on="user", how="semi").join(venues.lazy(), on="poi", how="semi")
    visits = collect(rows, file=checkins_file, columns=TIST2015_CHECKIN)
    visits = visits.sort(LINE)  # a join in parts may change the order
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


def _tist2015_venues(file: Path) -> tuple["pl.DataFrame", list[str]]:
    import polars as pl

    rows = read_rows(file, TIST2015_VENUE).with_columns(pl.col("lat", "lon").cast(pl.Float64, strict=False))
    complete, notes = only_complete(rows, file=file)
    inside = pl.col("lat").is_between(SOUTH, NORTH) & pl.col("lon").is_between(WEST, EAST)
    return complete.filter((pl.col("country") == "JP") & inside), notes


PROFILES_FILES = ("visits.csv", "user_profiles.tsv")


def read_tokyo_profiles(source: Path) -> Loaded:
    """A small part of Foursquare Tokyo with profiles: an illustration of the paper's first data set.

    D. Yang, D. Zhang, B. Qu, P. Cudré-Mauroux: PrivCheck: privacy-preserving check-in data publishing for personalized
    location based services, UbiComp 2016.

    Files: visits.csv with the header user_id, gender, twitter_friends, twitter_followers, venue_id, lat, lon, one row a
    check-in; user_profiles.tsv, tab-separated without header: user, gender, Twitter friends, Twitter followers.

    Decided here: profiles come from user_profiles.tsv, for the people with a check-in; a venue's coordinates are the
    first seen. Check-ins have no time, so that repeated ones by a person at a venue count once.
    """
    import polars as pl

    visits_file, profiles_file = (find(source, name) for name in PROFILES_FILES)
    rows = read_named(visits_file, ("user_id", "venue_id", "lat", "lon"))
    rows = rows.select(
        RECORD,
        user="user_id",
        poi="venue_id",
        lat=pl.col("lat").cast(pl.Float64, strict=False),
        lon=pl.col("lon").cast(pl.Float64, strict=False),
    )
    rows, notes = only_complete(rows, file=visits_file)
    people, people_notes = read_profiles(profiles_file)
    return Frames(
        visits=rows.select("user", "poi", RECORD),
        pois=in_order(rows.select("poi", "lat", "lon", RECORD), "poi"),
        users=in_order(people.join(rows, on="user", how="semi"), "user"),
        declared={"users.gender": GENDER},
        notes=notes + people_notes,
        files={"visits": visits_file, "pois": visits_file, "users": profiles_file},
        names={"user": "user_id", "poi": "venue_id"},
    ).load("foursquare-tokyo-profiles")


TOKYO_FILES = ("visits.csv", "users.csv")


def read_tokyo(source: Path) -> Loaded:
    """Foursquare Tokyo with numbers of friends, as prepared from LBSN2Vec.

    D. Yang, B. Qu, J. Yang, P. Cudré-Mauroux: Revisiting user mobility and social relationships in LBSNs: a hypergraph
    embedding approach (LBSN2Vec), WWW 2019.

    Files, CSV with a header: visits.csv (user, poi; distinct pairs) and users.csv (user, friend_count).

    Decided here: people of users.csv without a visit are left out, and numbers of friends that are no whole number
    count as unknown; both are counted in a note. There are no coordinates, no times, no POI features.
    """
    import polars as pl

    visits_file, users_file = (find(source, name) for name in TOKYO_FILES)
    visits = read_named(visits_file, ("user", "poi"))
    listed = read_named(users_file, ("user", FRIENDS))
    users = listed.with_columns(pl.col(FRIENDS).cast(pl.Int64, strict=False))
    unread = users[FRIENDS].null_count() - listed[FRIENDS].null_count()
    active = users.join(visits, on="user", how="semi")
    return Frames(
        visits=visits,
        users=in_order(active, "user"),
        files={"visits": visits_file, "users": users_file},
        notes=[
            *counted(users.height - active.height, "user", which=" without a visit", file=users_file),
            *counted(unread, f"unreadable {FRIENDS}", file=users_file),
        ],
    ).load("foursquare-tokyo")


TSMC2014_FILES = ("dataset_TSMC2014_TKY.txt", "dataset_TSMC2014_NYC.txt")
TSMC2014_COLUMNS = ("user", "poi", "category_id", "category", "lat", "lon", "offset", "stamp")


def read_tsmc2014(source: Path) -> Loaded:
    """Foursquare check-ins of Tokyo or New York.

    D. Yang, D. Zhang, V. W. Zheng, Z. Yu: Modeling user activity preference by leveraging user spatial temporal
    characteristics in LBSNs, IEEE TSMC: Systems 45(1), 2015 (data set TSMC 2014).

    File, tab-separated, Latin-1, without header: dataset_TSMC2014_TKY.txt or dataset_TSMC2014_NYC.txt with user, venue,
    category id, category, latitude, longitude, offset in minutes, UTC time ("Tue Apr 03 18:00:09 +0000 2012").

    Decided here: a venue's category and coordinates are those of its first row; the category's id is dropped, its name
    kept; times are moved to the local wall clock. There is nothing about the people but their check-ins.
    """
    import polars as pl

    file = find(source, *TSMC2014_FILES)
    # the user ids of one city mean other people in the other
    if all((source / name).is_file() for name in TSMC2014_FILES):
        raise DataError(f"{' and '.join(TSMC2014_FILES)} are both there; keep one city in the folder", file=source)
    rows = read_rows(file, TSMC2014_COLUMNS).select(
        "user",
        "poi",
        "category",
        LINE,
        pl.col("lat", "lon").cast(pl.Float64, strict=False),
        time=utc_to_local("stamp", "offset"),
    )
    rows, notes = only_complete(rows, file=file)
    return Frames(
        visits=rows.select("user", "poi", "time", LINE),
        pois=in_order(rows.select("poi", "lat", "lon", "category", LINE), "poi"),
        notes=notes,
        files={"visits": file, "pois": file},
    ).load(f"tsmc2014-{file.stem[-3:].lower()}")
