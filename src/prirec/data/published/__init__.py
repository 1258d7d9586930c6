"""Published data sets: the formats that are known, and the way from their files to a data folder."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from prirec.data.folder import Loaded, read_folder
from prirec.data.published import foursquare, others
from prirec.data.published.common import Format
from prirec.data.sources import existing_folder
from prirec.data.write_folder import TableFormat, refuse_occupied, write_folder
from prirec.errors import UsageError
from prirec.util.sentences import suggest

__all__ = ["FORMATS", "Format", "import_published"]


_ALL = (
    Format(
        "tist2015-tokyo", foursquare.read_tist2015, foursquare.TIST2015_FILES,
        "Foursquare Tokyo with profiles (TIST 2015 and UbiComp 2016), the paper's first data set",
    ),
    Format(
        "tsmc2014", foursquare.read_tsmc2014, (" or ".join(foursquare.TSMC2014_FILES),),
        "Foursquare Tokyo or New York (TSMC 2014), with times, coordinates and categories",
    ),
    Format(
        "gowalla", partial(others.read_snap, network="gowalla"), others.snap_files("gowalla"),
        "Gowalla from SNAP, with times, coordinates and numbers of friends",
    ),
    Format(
        "brightkite", partial(others.read_snap, network="brightkite"), others.snap_files("brightkite"),
        "Brightkite from SNAP, with times, coordinates and numbers of friends",
    ),
    Format(
        "koubei2016", others.read_koubei, others.KOUBEI_FILES,
        "Koubei payments of the IJCAI-16 contest, a POI being a merchant at a location",
    ),
    Format(
        "foursquare-tokyo", foursquare.read_tokyo, foursquare.TOKYO_FILES,
        "Foursquare Tokyo as prepared from LBSN2Vec, with numbers of friends",
    ),
    Format(
        "foursquare-tokyo-profiles", foursquare.read_tokyo_profiles, foursquare.PROFILES_FILES,
        "a small part of Foursquare Tokyo with gender, friends and followers",
    ),
    Format(
        "yelp", others.read_yelp, others.YELP_FILES,
        "Yelp as prepared by CAPRI, with coordinates, categories and numbers of friends",
    ),
    Format(
        "trivago", others.read_trivago, others.TRIVAGO_FILES,
        "hotels shown and clicked or ignored (RecSys Challenge 2019 sample), with labels",
    ),
)  # fmt: skip
FORMATS: Mapping[str, Format] = {known.name: known for known in _ALL}


def import_published(name: str, source: Path, target: Path, *, table_format: TableFormat = "csv") -> Loaded:
    """The published files in `source` as a data folder at `target`, read back to check it."""
    if name not in FORMATS:
        raise UsageError(f"there is no format '{name}'; {suggest(name, FORMATS)}")
    source, target = Path(source), Path(target)
    refuse_occupied(target)
    existing_folder(source, needs=f"{name} needs a folder with {', '.join(FORMATS[name].files)}")
    published = FORMATS[name].read(source)
    write_folder(published.dataset, target, table_format=table_format)
    # strict: the reader has left repeated visits out already, so that a repetition now is a mistake of ours
    back = read_folder(target, strict=True)
    return Loaded(back.dataset, published.notes + tuple(note for note in back.notes if note not in published.notes))
