"""Foursquare check-ins of Tokyo or New York.

D. Yang, D. Zhang, V. W. Zheng, Z. Yu: Modeling user activity preference by leveraging user spatial temporal
characteristics in LBSNs, IEEE TSMC: Systems 45(1), 2015 (data set TSMC 2014).

File, tab-separated, Latin-1, without header: dataset_TSMC2014_TKY.txt or dataset_TSMC2014_NYC.txt with user, venue,
category id, category, latitude, longitude, offset in minutes, UTC time ("Tue Apr 03 18:00:09 +0000 2012").

Decided here: a venue's category and coordinates are those of its first row; the category's id is dropped, its name
kept; times are moved to the local wall clock. There is nothing about the people but their check-ins.
"""

from pathlib import Path

from prirec.data.folder import Loaded
from prirec.data.published.frames import LINE, Frames, find, in_order, only_complete, read_rows, utc_to_local
from prirec.errors import DataError

FILES = ("dataset_TSMC2014_TKY.txt", "dataset_TSMC2014_NYC.txt")
COLUMNS = ("user", "poi", "category_id", "category", "lat", "lon", "offset", "stamp")


def read(source: Path) -> Loaded:
    """One city; a folder with both is refused, since the user ids of one mean other people in the other."""
    import polars as pl

    file = find(source, *FILES)
    if all((source / name).is_file() for name in FILES):
        raise DataError(f"{' and '.join(FILES)} are both there; keep one city in the folder", file=source)
    rows = read_rows(file, COLUMNS).select(
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
