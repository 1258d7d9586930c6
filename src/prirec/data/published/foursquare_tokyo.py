"""Foursquare Tokyo with numbers of friends, as prepared from LBSN2Vec.

D. Yang, B. Qu, J. Yang, P. Cudré-Mauroux: Revisiting user mobility and social relationships in LBSNs: a hypergraph
embedding approach (LBSN2Vec), WWW 2019.

Files, CSV with a header: visits.csv (user, poi; distinct pairs) and users.csv (user, friend_count).

Decided here: people of users.csv without a visit are left out, and numbers of friends that are no whole number count as
unknown; both are told. There are no coordinates, no times, no POI features.
"""

from pathlib import Path

from prirec.data.folder import Loaded
from prirec.data.published.frames import FRIENDS, Frames, counted, find, in_order, read_named

FILES = ("visits.csv", "users.csv")


def read(source: Path) -> Loaded:
    """Distinct pairs of people and POIs, unlabelled."""
    import polars as pl

    visits_file, users_file = (find(source, name) for name in FILES)
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
