"""Readers of published data other than Foursquare's: Koubei, Gowalla and Brightkite, trivago, Yelp.

Each reader's docstring says who published the files, what is in them, and what was decided here.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.dataset import Declared
from prirec.data.folder import Loaded
from prirec.data.published.common import (
    LINE,
    RECORD,
    Frames,
    counted,
    find,
    in_order,
    only_complete,
    read_named,
    read_rows,
    with_friend_counts,
)

if TYPE_CHECKING:
    import polars as pl

KOUBEI_FILES = ("ijcai2016_koubei_train.csv", "ijcai2016_merchant_info.csv")
KOUBEI_PAYMENT = ("user_id", "merchant_id", "location_id", "time_stamp")
KOUBEI_MERCHANT = ("merchant_id", "budget", "location_list")


def read_koubei(source: Path) -> Loaded:
    """Koubei payments at shops, from the IJCAI-16 contest on store recommendation (Tianchi data set 53).

    Tianchi: IJCAI-16 Brick-and-Mortar Store Recommendation Dataset, 2018. Not the set of the paper, which is not
    public.

    Files, comma-separated, with or without ".csv" and with or without a header (both are in circulation):
    - ijcai2016_koubei_train: user_id, merchant_id, location_id, time_stamp as YYYYMMDD
    - ijcai2016_merchant_info: merchant_id, budget, location list separated by ":"

    Decided here: a POI is a merchant at a location, with the id "merchant@location"; the catalogue is every branch in
    merchant_info and every branch someone paid at; its static features are the merchant's budget and number of
    branches. A payment is a visit at midnight of its day, so that several on one day at one branch count once. There
    are no coordinates and nothing about the people. The column order is the one stated by the contest and used by its
    entrants.
    """
    import polars as pl

    payments_file, merchants_file = (find(source, name, name.removesuffix(".csv")) for name in KOUBEI_FILES)
    payments = _koubei_rows(payments_file, KOUBEI_PAYMENT).with_columns(
        pl.col("time_stamp").str.to_date("%Y%m%d", strict=False),
        poi=pl.format("{}@{}", "merchant_id", "location_id"),
    )
    payments, notes = only_complete(payments, file=payments_file)
    merchants, merchant_notes = _koubei_merchants(merchants_file)
    return Frames(
        visits=payments.select("poi", LINE, user="user_id", time="time_stamp"),
        pois=_koubei_branches(merchants, payments),
        notes=notes + merchant_notes,
        files={"visits": payments_file, "pois": merchants_file},
        names={"user": "user_id", "time": "time_stamp"},
    ).load("koubei2016")


def _koubei_rows(file: Path, columns: Sequence[str]) -> "pl.DataFrame":
    import polars as pl

    rows = read_rows(file, columns, separator=",")
    # files with and without a header are in circulation; ne_missing, since an empty cell is no header either
    return rows.filter(pl.col(columns[0]).str.to_lowercase().ne_missing(columns[0]))


def _koubei_merchants(file: Path) -> tuple["pl.DataFrame", list[str]]:
    import polars as pl

    rows, notes = only_complete(_koubei_rows(file, KOUBEI_MERCHANT), file=file)
    locations = pl.col("location_list").str.split(":").list.unique(maintain_order=True)
    return rows.select(
        "merchant_id",
        pl.col("budget").cast(pl.Float64, strict=False),
        location_id=locations,
        branches=locations.list.len().cast(pl.Int64),
    ).unique("merchant_id", keep="first", maintain_order=True), notes


def _koubei_branches(merchants: "pl.DataFrame", payments: "pl.DataFrame") -> "pl.DataFrame":
    """Every branch with its merchant's features; empty cells for a merchant who is not in merchant_info."""
    import polars as pl

    at = ["merchant_id", "location_id"]
    branches = pl.concat([merchants.explode("location_id").select(at), payments.select(at)]).unique(maintain_order=True)
    features = merchants.select("merchant_id", "budget", "branches")
    joined = branches.join(features, on="merchant_id", how="left", maintain_order="left")
    return in_order(joined.select("budget", "branches", poi=pl.format("{}@{}", *at)), "poi")


SNAP_CHECKIN = ("user", "time", "lat", "lon", "poi")
SNAP_EDGE = ("user", "friend")


def snap_files(network: str) -> tuple[str, str]:
    return f"loc-{network}_totalCheckins.txt", f"loc-{network}_edges.txt"


def read_snap(source: Path, *, network: str) -> Loaded:
    """Gowalla and Brightkite check-ins with friendships, from the SNAP collection.

    E. Cho, S. A. Myers, J. Leskovec: Friendship and mobility: user movement in location-based social networks, KDD
    2011.

    Files, tab-separated and without header, plain or gzipped, NAME being gowalla or brightkite:
    - loc-NAME_totalCheckins.txt: user, time (2010-10-19T23:55:27Z), latitude, longitude, location id
    - loc-NAME_edges.txt: user, friend; each friendship in both directions

    Decided here: rows with an empty cell, with coordinates 0, 0 (and the location id of nothing but zeros that goes
    with them in Brightkite) or outside the globe are left out and counted; a location's coordinates are the first seen;
    times stay in UTC, as the local time is not published; friend_count is the number of different friends, 0 for people
    without an edge; people without a check-in are left out.
    """
    checkins, edges = (find(source, name, f"{name}.gz") for name in snap_files(network))
    rows, notes = _snap_checkins(checkins)
    people = in_order(rows.select("user"), "user")
    return Frames(
        visits=rows.select("user", "poi", "time", LINE),
        pois=in_order(rows.select("poi", "lat", "lon", LINE), "poi"),
        users=with_friend_counts(people, read_rows(edges, SNAP_EDGE).drop_nulls()),
        notes=notes,
        files={"visits": checkins, "pois": checkins, "users": edges},
    ).load(network)


def _snap_checkins(file: Path) -> tuple["pl.DataFrame", list[str]]:
    import polars as pl

    text = read_rows(file, SNAP_CHECKIN).with_columns(pl.col("lat", "lon").cast(pl.Float64, strict=False))
    rows, notes = only_complete(text, file=file)
    nowhere = ((pl.col("lat") == 0) & (pl.col("lon") == 0)) | pl.col("poi").str.contains("^0{2,}$")
    outside = (pl.col("lat").abs() > 90) | (pl.col("lon").abs() > 180)
    somewhere = rows.filter(~nowhere)
    located = somewhere.filter(~outside)
    notes += counted(rows.height - somewhere.height, "check-in", which=" at coordinates 0, 0", file=file)
    notes += counted(somewhere.height - located.height, "check-in", which=" outside the globe", file=file)
    return located, notes


TRIVAGO_FILES = ("impressions.csv.gz",)
TRIVAGO_COLUMNS = ("user_id", "timestamp", "platform", "city", "device", "position", "item_id", "price", "click")
TRIVAGO_NAMES = {"user": "user_id", "poi": "item_id", "label": "click", "time": "timestamp"}
TRIVAGO_DECLARED = {
    "visits.device": Declared(words=("desktop", "mobile", "tablet")),
    "visits.position": Declared(low=1.0, high=25.0),
}


def read_trivago(source: Path) -> Loaded:
    """Hotels shown to people, clicked or ignored: a sample of the trivago RecSys Challenge 2019.

    P. Knees, Y. Deldjoo, F. Bakhshandegan Moghaddam, J. Adamczak, G.-P. Leyson, P. Monreal: RecSys Challenge 2019:
    session-based hotel recommendations, RecSys 2019.

    File, CSV with a header, plain or gzipped: impressions.csv with user_id, session_id, timestamp (seconds since 1970),
    step, platform, city, device, position, item_id, price, click; one row for each hotel shown.

    Decided here: a POI is a hotel, in the city most often searched when it was shown (the first such, if several); a
    person's platform is the first seen; price, position and device are context. Times stay in UTC, as the local time is
    not published. Every row is kept: people and hotels with few impressions are filtered in a later step. Known to all,
    hence declared: a list has 25 positions, and a device is one of three.
    """
    import polars as pl

    file = find(source, *TRIVAGO_FILES, "impressions.csv")
    rows = read_named(file, TRIVAGO_COLUMNS).with_columns(
        pl.col("timestamp", "click").cast(pl.Int64, strict=False),
        pl.col("position", "price").cast(pl.Float64, strict=False),
    )
    rows = rows.rename({theirs: ours for ours, theirs in TRIVAGO_NAMES.items()})
    rows, notes = only_complete(rows, file=file)
    return Frames(
        visits=rows.select("user", "poi", "label", "time", "price", "position", "device", RECORD),
        pois=in_order(_trivago_cities(rows), "poi"),
        users=in_order(rows.select("user", "platform", RECORD), "user"),
        declared=TRIVAGO_DECLARED,
        notes=notes,
        files=dict.fromkeys(("visits", "pois", "users"), file),
        names=TRIVAGO_NAMES,
    ).load("trivago")


def _trivago_cities(rows: "pl.DataFrame") -> "pl.DataFrame":
    """poi, city: the city most often searched, the first seen among equals."""
    import polars as pl

    counts = rows.group_by("poi", "city", maintain_order=True).agg(count=pl.len())
    by_count = counts.sort("count", descending=True, maintain_order=True)
    return by_count.unique("poi", keep="first", maintain_order=True).select("poi", "city")


YELP_FILES = ("visits.csv", "pois.csv", "poi_categories.csv", "friends.csv")


def read_yelp(source: Path) -> Loaded:
    """Yelp reviews with categories and friendships, as prepared by CAPRI from the Yelp open data set.

    A. Tourani, H. A. Rahmani, M. Naghiaei, Y. Deldjoo: CAPRI: context-aware point-of-interest recommendation framework,
    Software Impacts 19, 2024; Yelp open data set.

    Files, CSV with a header: visits.csv (user, poi, rating, split), pois.csv (poi, lat, lon), poi_categories.csv (poi,
    category; a row for each of a POI's categories), friends.csv (user, friend).

    Decided here: ratings are dropped, as a rating is not known before the visit, and so is the split, as splits are
    made later; category is a list of words such as "c0"; friend_count is the number of different friends, whichever of
    the two a row names first, and 0 for people without a row.
    """
    import polars as pl

    visits_file, pois_file, categories_file, friends_file = (find(source, name) for name in YELP_FILES)
    visits = read_named(visits_file, ("user", "poi"))
    pois = read_named(pois_file, ("poi", "lat", "lon")).with_columns(
        pl.col("lat", "lon").cast(pl.Float64, strict=False)
    )
    # CAPRI's categories are bare numbers; with a letter they cannot be taken for quantities
    words = read_named(categories_file, ("poi", "category")).with_columns(category="c" + pl.col("category"))
    tags = words.group_by("poi").agg("category")
    people = in_order(visits.select("user"), "user")
    return Frames(
        visits=visits,
        pois=in_order(pois.join(tags, on="poi", how="left", maintain_order="left"), "poi"),
        users=with_friend_counts(people, read_named(friends_file, ("user", "friend"))),
        files={"visits": visits_file, "pois": pois_file, "users": friends_file},
    ).load("yelp")
