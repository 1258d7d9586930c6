"""Koubei payments at shops, from the IJCAI-16 contest on brick-and-mortar store recommendation (Tianchi data set 53).

Tianchi: IJCAI-16 Brick-and-Mortar Store Recommendation Dataset, 2018. Not the set of the paper, which is not public.

Files, comma-separated, with or without ".csv" and with or without a header (both are in circulation):
- ijcai2016_koubei_train: user_id, merchant_id, location_id, time_stamp as YYYYMMDD
- ijcai2016_merchant_info: merchant_id, budget, location list separated by ":"

Decided here: a POI is a merchant at a location, with the id "merchant@location"; the catalogue is every branch in
merchant_info and every branch someone paid at; its static features are the merchant's budget and number of branches.
A payment is a visit at midnight of its day, so that several on one day at one branch count once. There are no
coordinates and nothing about the people. The column order is the one stated by the contest and used by its entrants.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.folder import Loaded
from prirec.data.published.frames import LINE, Frames, find, in_order, only_complete, read_rows

if TYPE_CHECKING:
    import polars as pl

FILES = ("ijcai2016_koubei_train.csv", "ijcai2016_merchant_info.csv")
PAYMENT = ("user_id", "merchant_id", "location_id", "time_stamp")
MERCHANT = ("merchant_id", "budget", "location_list")


def read(source: Path) -> Loaded:
    """Payments as unlabelled visits, branches as POIs."""
    import polars as pl

    payments_file, merchants_file = (find(source, name, name.removesuffix(".csv")) for name in FILES)
    payments = _rows(payments_file, PAYMENT).with_columns(
        pl.col("time_stamp").str.to_date("%Y%m%d", strict=False),
        poi=pl.format("{}@{}", "merchant_id", "location_id"),
    )
    payments, notes = only_complete(payments, file=payments_file)
    merchants, merchant_notes = _merchants(merchants_file)
    return Frames(
        visits=payments.select("poi", LINE, user="user_id", time="time_stamp"),
        pois=_branches(merchants, payments),
        notes=notes + merchant_notes,
        files={"visits": payments_file, "pois": merchants_file},
        names={"user": "user_id", "time": "time_stamp"},
    ).load("koubei2016")


def _rows(file: Path, columns: Sequence[str]) -> "pl.DataFrame":
    import polars as pl

    rows = read_rows(file, columns, separator=",")
    return rows.filter(pl.col(columns[0]).str.to_lowercase().ne_missing(columns[0]))  # an empty cell is no header


def _merchants(file: Path) -> tuple["pl.DataFrame", list[str]]:
    import polars as pl

    rows, notes = only_complete(_rows(file, MERCHANT), file=file)
    locations = pl.col("location_list").str.split(":").list.unique(maintain_order=True)
    return rows.select(
        "merchant_id",
        pl.col("budget").cast(pl.Float64, strict=False),
        location_id=locations,
        branches=locations.list.len().cast(pl.Int64),
    ).unique("merchant_id", keep="first", maintain_order=True), notes


def _branches(merchants: "pl.DataFrame", payments: "pl.DataFrame") -> "pl.DataFrame":
    """Every branch with its merchant's features; empty cells for a merchant who is not in merchant_info."""
    import polars as pl

    at = ["merchant_id", "location_id"]
    branches = pl.concat([merchants.explode("location_id").select(at), payments.select(at)]).unique(maintain_order=True)
    features = merchants.select("merchant_id", "budget", "branches")
    joined = branches.join(features, on="merchant_id", how="left", maintain_order="left")
    return in_order(joined.select("budget", "branches", poi=pl.format("{}@{}", *at)), "poi")
