"""Yelp reviews with categories and friendships, as prepared by CAPRI from the Yelp open data set.

A. Tourani, H. A. Rahmani, M. Naghiaei, Y. Deldjoo: CAPRI: context-aware point-of-interest recommendation framework,
Software Impacts 19, 2024; Yelp open data set.

Files, CSV with a header: visits.csv (user, poi, rating, split), pois.csv (poi, lat, lon), poi_categories.csv (poi,
category; a row for each of a POI's categories), friends.csv (user, friend).

Decided here: ratings are dropped, as a rating is not known before the visit, and so is the split, as splits are made
later; category is a list of words such as "c0"; friend_count is the number of different friends, whichever of the two
a row names first, and 0 for people without a row.
"""

from pathlib import Path

from prirec.data.folder import Loaded
from prirec.data.published.frames import Frames, find, in_order, read_named, with_friend_counts

FILES = ("visits.csv", "pois.csv", "poi_categories.csv", "friends.csv")


def read(source: Path) -> Loaded:
    """Reviews as unlabelled visits without time."""
    import polars as pl

    visits_file, pois_file, categories_file, friends_file = (find(source, name) for name in FILES)
    visits = read_named(visits_file, ("user", "poi"))
    pois = read_named(pois_file, ("poi", "lat", "lon")).with_columns(
        pl.col("lat", "lon").cast(pl.Float64, strict=False)
    )
    words = read_named(categories_file, ("poi", "category")).with_columns(category="c" + pl.col("category"))
    tags = words.group_by("poi").agg("category")
    people = in_order(visits.select("user"), "user")
    return Frames(
        visits=visits,
        pois=in_order(pois.join(tags, on="poi", how="left", maintain_order="left"), "poi"),
        users=with_friend_counts(people, read_named(friends_file, ("user", "friend"))),
        files={"visits": visits_file, "pois": pois_file, "users": friends_file},
    ).load("yelp")
