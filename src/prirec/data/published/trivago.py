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

from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.dataset import Declared
from prirec.data.folder import Loaded
from prirec.data.published.frames import RECORD, Frames, find, in_order, only_complete, read_named

if TYPE_CHECKING:
    import polars as pl

FILES = ("impressions.csv.gz",)
COLUMNS = ("user_id", "timestamp", "platform", "city", "device", "position", "item_id", "price", "click")
NAMES = {"user": "user_id", "poi": "item_id", "label": "click", "time": "timestamp"}
DECLARED = {
    "visits.device": Declared(words=("desktop", "mobile", "tablet")),
    "visits.position": Declared(low=1.0, high=25.0),
}


def read(source: Path) -> Loaded:
    """Labelled impressions: +1 clicked, -1 shown and ignored."""
    import polars as pl

    file = find(source, *FILES, "impressions.csv")
    rows = read_named(file, COLUMNS).with_columns(
        pl.col("timestamp", "click").cast(pl.Int64, strict=False),
        pl.col("position", "price").cast(pl.Float64, strict=False),
    )
    rows = rows.rename({theirs: ours for ours, theirs in NAMES.items()})
    rows, notes = only_complete(rows, file=file)
    return Frames(
        visits=rows.select("user", "poi", "label", "time", "price", "position", "device", RECORD),
        pois=in_order(_cities(rows), "poi"),
        users=in_order(rows.select("user", "platform", RECORD), "user"),
        declared=DECLARED,
        notes=notes,
        files=dict.fromkeys(("visits", "pois", "users"), file),
        names=NAMES,
    ).load("trivago")


def _cities(rows: "pl.DataFrame") -> "pl.DataFrame":
    """poi, city: the city most often searched, the first seen among equals."""
    import polars as pl

    counts = rows.group_by("poi", "city", maintain_order=True).agg(count=pl.len())
    by_count = counts.sort("count", descending=True, maintain_order=True)
    return by_count.unique("poi", keep="first", maintain_order=True).select("poi", "city")
