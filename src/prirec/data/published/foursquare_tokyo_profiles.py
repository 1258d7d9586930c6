"""A small part of Foursquare Tokyo with profiles: an illustration of the paper's first data set.

D. Yang, D. Zhang, B. Qu, P. Cudré-Mauroux: PrivCheck: privacy-preserving check-in data publishing for personalized
location based services, UbiComp 2016.

Files: visits.csv with the header user_id, gender, twitter_friends, twitter_followers, venue_id, lat, lon, one row a
check-in; user_profiles.tsv, tab-separated without header: user, gender, Twitter friends, Twitter followers.

Decided here: profiles come from user_profiles.tsv, for the people with a check-in; a venue's coordinates are the first
seen. Check-ins have no time, so that repeated ones by a person at a venue count once.
"""

from pathlib import Path

from prirec.data.folder import Loaded
from prirec.data.published.frames import GENDER, RECORD, Frames, find, in_order, only_complete, read_named
from prirec.data.published.tist2015_tokyo import read_profiles

FILES = ("visits.csv", "user_profiles.tsv")


def read(source: Path) -> Loaded:
    """Check-ins at venues with coordinates, by people with gender, friends and followers."""
    import polars as pl

    visits_file, profiles_file = (find(source, name) for name in FILES)
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
