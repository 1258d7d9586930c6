"""Published data sets: one module for each format, and the way from its files to a data folder."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from prirec.data.folder import Loaded, read_folder
from prirec.data.folder_names import suggest
from prirec.data.folder_tables import require_polars
from prirec.data.published import (
    foursquare_tokyo,
    foursquare_tokyo_profiles,
    koubei2016,
    snap,
    tist2015_tokyo,
    trivago,
    tsmc2014,
    yelp,
)
from prirec.data.writing import TableFormat, refuse_occupied, write_folder
from prirec.errors import DataError, UsageError

__all__ = ["FORMATS", "Format", "import_published"]


@dataclass(frozen=True, slots=True)
class Format:
    """A published format: what it is, which files it needs, and its reader."""

    name: str
    description: str
    files: tuple[str, ...]
    read: Callable[[Path], Loaded] = field(repr=False)


_ALL = (
    Format(
        name="tist2015-tokyo",
        description="Foursquare Tokyo with profiles (TIST 2015 and UbiComp 2016), the paper's first data set",
        files=tist2015_tokyo.FILES,
        read=tist2015_tokyo.read,
    ),
    Format(
        name="tsmc2014",
        description="Foursquare Tokyo or New York (TSMC 2014), with times, coordinates and categories",
        files=(" or ".join(tsmc2014.FILES),),
        read=tsmc2014.read,
    ),
    Format(
        name="gowalla",
        description="Gowalla from SNAP, with times, coordinates and numbers of friends",
        files=snap.files("gowalla"),
        read=snap.reader("gowalla"),
    ),
    Format(
        name="brightkite",
        description="Brightkite from SNAP, with times, coordinates and numbers of friends",
        files=snap.files("brightkite"),
        read=snap.reader("brightkite"),
    ),
    Format(
        name="koubei2016",
        description="Koubei payments of the IJCAI-16 contest, a POI being a merchant at a location",
        files=koubei2016.FILES,
        read=koubei2016.read,
    ),
    Format(
        name="foursquare-tokyo",
        description="Foursquare Tokyo as prepared from LBSN2Vec, with numbers of friends",
        files=foursquare_tokyo.FILES,
        read=foursquare_tokyo.read,
    ),
    Format(
        name="foursquare-tokyo-profiles",
        description="a small part of Foursquare Tokyo with gender, friends and followers",
        files=foursquare_tokyo_profiles.FILES,
        read=foursquare_tokyo_profiles.read,
    ),
    Format(
        name="yelp",
        description="Yelp as prepared by CAPRI, with coordinates, categories and numbers of friends",
        files=yelp.FILES,
        read=yelp.read,
    ),
    Format(
        name="trivago",
        description="hotels shown and clicked or ignored (RecSys Challenge 2019 sample), with labels",
        files=trivago.FILES,
        read=trivago.read,
    ),
)
FORMATS: Mapping[str, Format] = {known.name: known for known in _ALL}


def import_published(name: str, source: Path, target: Path, *, table_format: TableFormat = "csv") -> Loaded:
    """The published files in `source` as a data folder at `target`, read back to check it."""
    require_polars()
    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'; {suggest(name, FORMATS)}")
    source, target = Path(source), Path(target)
    refuse_occupied(target)
    if not source.is_dir():
        needed = ", ".join(FORMATS[name].files)
        raise DataError(f"there is no such folder; {name} needs a folder with {needed}", file=source)
    published = FORMATS[name].read(source)
    write_folder(published.dataset, target, table_format=table_format)
    back = read_folder(target, strict=True)
    return Loaded(back.dataset, published.notes + tuple(note for note in back.notes if note not in published.notes))
