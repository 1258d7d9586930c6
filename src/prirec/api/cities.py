"""Cities: the data that a model is trained on, from tables, from a folder, or made up."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from prirec.config import PresetName, Settings, settings_of
from prirec.errors import UsageError
from prirec.util.shown import Shown, Table, counted

if TYPE_CHECKING:
    from prirec.data.check import FolderCheck
    from prirec.data.dataset import Dataset
    from prirec.simulate.setup import CityDescription

# A Polars or pandas frame, columns by name, or a list of rows. Any: pandas is no dependency, and has no types here.
TableLike: TypeAlias = Any


class City(Shown):
    """People, places and visits: what a model is trained on.

    `visits` has the columns `user` and `poi`, and may have `time`, `label` (1 visited, 0 shown and ignored) and columns
    of its own; `pois` has `poi` and may have `lat`, `lon` and public columns; `users` has `user` and may have `lat`,
    `lon` (the home) and private columns. Each is a Polars or pandas frame, a mapping of columns, or a list of rows.
    `schema` says what is publicly known of private columns, in the form of schema.toml: {"users": {"age": {"low": 0,
    "high": 100}}}. Ids, times and coordinates under other names, such as user_id or latitude, are recognised. With
    `strict`, repeated visits are an error; otherwise they are left out and noted. With `skip_bad`, rows that are wrong
    are left out and counted in a note.
    """

    def __init__(
        self,
        visits: TableLike,
        pois: TableLike = None,
        users: TableLike = None,
        *,
        name: str = "city",
        schema: Mapping[str, Any] | None = None,
        strict: bool = False,
        skip_bad: bool = False,
    ) -> None:
        from prirec.data.folder import assemble, refuse_swapped
        from prirec.data.given_tables import table_of
        from prirec.data.schema import schema_from

        given = {"visits": visits, "pois": pois, "users": users}
        tables = {key: table_of(key, value) for key, value in given.items() if value is not None}
        if "visits" not in tables:
            raise UsageError("a city needs visits: a table with the columns 'user' and 'poi'")
        loaded = assemble(tables, schema=schema_from(schema or {}), name=name, strict=strict, skip_bad=skip_bad)
        refuse_swapped(loaded.dataset, users=Path("users"), pois=Path("pois"))
        self._dataset, self._notes, self._source = loaded.dataset, loaded.notes, f"the tables of '{name}'"

    @classmethod
    def of(cls, dataset: "Dataset", *, notes: Sequence[str] = (), source: str = "") -> "City":
        """A city from a data set that another part of PriRec has made or read."""
        city = cls.__new__(cls)
        city._dataset, city._notes, city._source = dataset, tuple(notes), source or dataset.name
        return city

    @property
    def dataset(self) -> "Dataset":
        """The columns as arrays: what the rest of PriRec works on."""
        return self._dataset

    @property
    def name(self) -> str:
        """What the city is called."""
        return self._dataset.name

    @property
    def source(self) -> str:
        """Where the data came from, as a saved run names it."""
        return self._source

    @property
    def people(self) -> tuple[str, ...]:
        """Ids of people."""
        return self._dataset.people.ids

    @property
    def places(self) -> tuple[str, ...]:
        """Ids of places."""
        return self._dataset.places.ids

    @property
    def records(self) -> int:
        """How many visits, or places shown and ignored, there are."""
        return len(self._dataset.visits)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out while reading, and what looks wrong, in sentences."""
        return tuple(self._notes)

    def describe(self, settings: Settings | PresetName | None = None) -> "CityDescription":
        """People, places, records and features (the paper's Table 2) after the filter that the settings name."""
        from prirec.simulate.setup import describe_city

        return describe_city(self._dataset, settings_of(settings), notes=self._notes)

    def save(self, folder: Path | str, *, format: Literal["csv", "parquet"] = "csv") -> Path:  # noqa: A002
        """Write the city as a data folder, which `prirec.read_folder` and every command read."""
        from prirec.data.write_folder import write_folder

        write_folder(self._dataset, Path(folder), table_format=format)
        return Path(folder)

    def panels(self) -> Iterator[str | Table]:
        kind = "labelled record" if self._dataset.labelled else "visit"
        located = "" if self._dataset.places.location is not None else ", places without coordinates"
        yield (
            f"City '{self.name}': {counted(len(self.people), 'person')}, {counted(len(self.places), 'place')}, "
            f"{counted(self.records, kind)}{located}"
        )


def read_folder(folder: Path | str, *, strict: bool = False, skip_bad: bool = False) -> City:
    """Read a data folder: `visits` and, if there are any, `pois`, `users` and schema.toml.

    docs/how-to/your-own-data.md describes such folders. With `strict`, repeated visits are an error; otherwise they are
    left out and noted. With `skip_bad`, rows that are wrong are left out and counted in a note.
    """
    from prirec.data.folder import read_folder as read

    loaded = read(Path(folder), strict=strict, skip_bad=skip_bad)
    return City.of(loaded.dataset, notes=loaded.notes, source=str(folder))


def check_folder(folder: Path | str, *, skip_bad: bool = False) -> "FolderCheck":
    """Everything that is wrong or doubtful about a data folder, at once, and a proposed schema.toml.

    With `skip_bad`, rows that are wrong are not problems, but counted among what is doubtful: they would be left out.
    """
    from prirec.data.check import check_folder as check

    return check(Path(folder), skip_bad=skip_bad)


def make_city(
    people: int = 2000, *, places: int | None = None, records: int | None = None, seed: int = 0, **shape: Any
) -> City:
    """Make up a city with homes, places, tastes and visits; the same arguments give the same city.

    By default there are two places for five people and 40 records a person. `shape` takes the other fields of
    prirec.data.synthetic.CityPlan: districts, categories, span_km, centre, ignored_per_click, days.
    """
    from prirec.data.synthetic import CityPlan
    from prirec.data.synthetic import make_city as make
    from prirec.util.keyed_random import generator
    from prirec.util.sentences import suggest

    known = set(CityPlan.__dataclass_fields__) - {"people", "places", "records"}
    for name in shape:
        if name not in known:
            raise UsageError(f"a made-up city has no '{name}'; {suggest(name, known)}")
    refuse_no_count("people", people)
    # a small city still has a place for each of its districts
    districts = shape.setdefault("districts", min(12, places if places is not None else max(2 * people // 5, 1)))
    plan = CityPlan(
        people=people,
        places=places if places is not None else max(2 * people // 5, districts),
        records=records if records is not None else 40 * people,
        **shape,
    )
    return City.of(make(plan, generator(seed, "city")), source=f"made up with seed {seed}")


def city_of(given: City | Path | str, *, strict: bool = False, skip_bad: bool = False) -> City:
    if isinstance(given, City):
        return given
    if isinstance(given, str | Path):
        return read_folder(given, strict=strict, skip_bad=skip_bad)
    raise UsageError(
        f"a city is a prirec.City or the path of a data folder, not {type(given).__name__}; prirec.City(visits=...) "
        "makes one from tables"
    )


def refuse_no_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name} is a whole number of at least 1")
