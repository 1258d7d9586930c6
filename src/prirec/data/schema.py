"""schema.toml of a data folder: what is publicly known about private columns, and what each column is.

    [users.gender]
    values = ["female", "male"]     # the words it may hold

    [users.age]
    low = 0                         # the range of its numbers
    high = 100

    [pois.postcode]
    kind = "category"               # digits, yet no number; also "number" or "tags"

    [visits.member]
    kind = "user"                   # this column holds what PriRec calls user; also "ignore", and for places "name"

Everything in it is public: it must not be computed from anyone's data.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

from prirec.data.dataset import Declared
from prirec.data.sources import existing, unreadable
from prirec.errors import DataError, UsageError
from prirec.util.decode_errors import NOT_TOML
from prirec.util.files import read_text
from prirec.util.sentences import suggest

Kind = Literal["number", "category", "tags"]
KINDS: tuple[str, ...] = get_args(Kind)
IGNORE, NAME = "ignore", "name"  # a column that is left out; one that is shown with a place and not learnt from
FILE = "schema.toml"
BARE = re.compile("[A-Za-z0-9_-]+")  # keys that TOML takes without quotes
# places are public: their range and words are read off the catalogue, and only a kind may need to be said
KEYS = {"users": ("values", "low", "high", "kind"), "visits": ("values", "low", "high", "kind"), "pois": ("kind",)}
# Columns with a meaning of their own. Other names for them are known too (ROLE_OF), and schema.toml may name any.
RESERVED = {
    "users": ("user", "lat", "lon"),
    "visits": ("user", "poi", "label", "time", "lat", "lon"),  # coordinates are refused there, not read
    "pois": ("poi", "lat", "lon"),
}
ROLES = {table: (*columns, *((NAME,) if table == "pois" else ()), IGNORE) for table, columns in RESERVED.items()}


@dataclass(frozen=True, slots=True)
class Schema:
    """Keys are like "users.gender". A column with declared words is text, one with a declared range is a number."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)  # what else a column is: "user", "time", "name", "ignore"
    file: Path | None = None

    def columns(self) -> list[str]:
        """Keys of all columns that schema.toml mentions."""
        return list({**self.kinds, **self.declared, **self.roles})

    def columns_of(self, table: str) -> list[str]:
        """Names of the columns of one table that schema.toml mentions."""
        return [key.removeprefix(f"{table}.") for key in self.columns() if key.startswith(f"{table}.")]

    def without(self, key: str) -> "Schema":
        """A copy of the schema without this column."""
        kinds, declared, roles = ({k: v for k, v in getattr(self, part).items() if k != key} for part in PARTS)
        return replace(self, kinds=kinds, declared=declared, roles=roles)

    def is_text(self, key: str) -> bool:
        return key in self.declared and self.declared[key].words is not None

    def is_number(self, key: str) -> bool:
        return key in self.declared and self.declared[key].words is None

    def error(self, problem: str, *, key: str) -> "SchemaError":
        return SchemaError(problem, file=self.file or Path(FILE), key=key)


PARTS = ("kinds", "declared", "roles")


class SchemaError(DataError):
    """What schema.toml says about one column does not fit the tables."""

    def __init__(self, problem: str, *, file: Path, key: str):
        super().__init__(problem, file=file, column=key.partition(".")[2])
        self.key = key

    def __reduce__(self) -> tuple[type[DataError], tuple[str]]:
        return DataError, (str(self),)  # for another process, its words are enough


def read_schema(folder: Path) -> Schema:
    """The folder's schema.toml, or an empty schema; whether its columns exist is checked against the tables later."""
    return schema_from(schema_content(folder), file=folder / FILE)


def schema_content(folder: Path) -> Mapping[str, Any]:
    """schema.toml as nested tables; empty where there is none."""
    file = existing(folder / FILE)
    if file is None:
        return {}
    try:
        return tomllib.loads(read_text(file))
    except OSError as broken:
        raise unreadable(file, broken) from None
    except NOT_TOML as broken:
        raise DataError(f"is not TOML: {broken}", file=file) from broken


def schema_from(content: Mapping[str, Any], *, file: Path | None = None) -> Schema:
    """The schema that a nested table gives, as schema.toml has it: {"users": {"age": {"low": 0, "high": 100}}}."""
    named = file if file is not None else Path(FILE)
    parts: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
    for table, column, entry in _entries(content, named):
        said = _read_entry(table, column, entry, file=named)
        for part, of in parts.items():
            of.update(getattr(said, part))
    return Schema(**parts, file=file)


def _entries(content: Mapping[str, Any], file: Path) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    for table, columns in content.items():
        if table not in KEYS:
            raise DataError(f"there is no table '{table}'; {suggest(table, KEYS)}", file=file)
        if not isinstance(columns, dict):
            raise DataError(f"write [{table}.COLUMN] and the keys below it", file=file)
        for column, entry in columns.items():
            if not isinstance(entry, dict):
                raise DataError(f"write [{table}.{column}] and the keys below it", file=file, column=column)
            for key in entry:
                if key not in KEYS[table]:
                    raise DataError(f"unknown key '{key}'; {suggest(key, KEYS[table])}", file=file, column=column)
            yield table, column, entry


def _read_entry(table: str, column: str, entry: Mapping[str, Any], *, file: Path) -> Schema:
    key, kind = f"{table}.{column}", entry.get("kind")
    if kind is not None and kind not in (*KINDS, *ROLES[table]):
        raise DataError(f"kind is one of {', '.join((*KINDS, *ROLES[table]))} in {table}", file=file, column=column)
    known = _declaration(entry, file=file, column=column)
    if kind in ROLES[table]:
        if known is not None:
            raise DataError(f"kind '{kind}' has neither values nor low and high", file=file, column=column)
        return Schema(roles={key: str(kind)})
    if column in RESERVED[table]:
        raise DataError(
            'has a meaning of its own and cannot be declared; kind = "ignore" leaves it out', file=file, column=column
        )
    if known is not None and kind is not None and (kind == "number") is (known.words is not None):
        raise DataError("numbers have low and high, categories and tags have values", file=file, column=column)
    if known is not None and kind != "category" and any(word != word.strip() for word in known.words or ()):
        problem = "a word in values has spaces around it, which words of a list never have; write it without"
        raise DataError(f'{problem}, or add kind = "category"', file=file, column=column)
    return Schema(kinds={} if kind is None else {key: kind}, declared={} if known is None else {key: known})


def _declaration(entry: Mapping[str, Any], *, file: Path, column: str) -> Declared | None:
    values, low, high = (entry.get(key) for key in ("values", "low", "high"))
    if values is not None and (low is not None or high is not None):
        raise DataError("give values for words, or low and high for numbers, not both", file=file, column=column)
    if values is not None:
        if not isinstance(values, list) or not values or not all(isinstance(word, str) and word for word in values):
            raise DataError('values is a list of words such as ["female", "male"]', file=file, column=column)
        if len(set(values)) < len(values):
            raise DataError("a word is there twice in values", file=file, column=column)
        return Declared(words=tuple(values))
    if low is None and high is None:
        return None
    bounds = [float(bound) for bound in (low, high) if _finite(bound)]
    if len(bounds) < 2 or bounds[0] >= bounds[1]:
        raise DataError("low and high are two numbers, low the smaller", file=file, column=column)
    return Declared(low=bounds[0], high=bounds[1])


def _finite(value: object) -> TypeGuard[float]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max  # a whole number may be too large for a float, and NaN is not less


def schema_text(schema: Schema, *, remarks: Mapping[str, str] | None = None) -> str:
    """schema.toml as text, so that read_schema gives the same back; empty if there is nothing to state. Remarks stand
    as comments below what is said of their column."""
    lines: list[str] = []
    for key in sorted({*schema.columns(), *(remarks or {})}):
        table, _, column = key.partition(".")
        kind = schema.kinds.get(key) or schema.roles.get(key)
        lines += [f"[{table}.{column if BARE.fullmatch(column) else _quoted(column)}]"]
        lines += [f'kind = "{kind}"'] if kind else []
        lines += _declared_lines(key, schema.declared[key]) if key in schema.declared else []
        lines += [f"# {line}" for line in (remarks or {}).get(key, "").splitlines()]
        lines += [""]
    return "\n".join(lines)


def _declared_lines(key: str, known: Declared) -> list[str]:
    if known.words is not None and known.low is None and known.high is None:
        return [f"values = [{', '.join(_quoted(word) for word in known.words)}]"]
    if known.words is None and known.low is not None and known.high is not None:
        return [f"low = {float(known.low)!r}", f"high = {float(known.high)!r}"]
    raise UsageError(f"the declaration of {key} needs either words, or both low and high")


def _quoted(text: str) -> str:
    # JSON strings are TOML strings but for DEL, which TOML wants escaped
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# Which file is which table, and which column is which, under the names that other programs use. The one definition:
# docs/how-to/your-own-data.md lists them all, and a test holds the two together.
#
# A column whose name says that it is an id or a coordinate is never silently learnt from. It is taken for what it says
# where that is plain; otherwise whoever has the data is asked to say what it is, in schema.toml.


# In small letters, without anything between them: userId, USER_ID and "user id" are one.
_TABLES = {
    "visits": "visits visit checkins checkin reviews review ratings rating interactions interaction events",
    "pois": "pois poi places place venues venue businesses business items item shops stores restaurants hotels "
    "merchants locations spots",
    "users": "users user people persons person customers customer members member profiles userprofiles",
}
_NAMES = {
    "user": "user userid uid person personid customer customerid visitorid memberid accountid",
    "poi": "poi poiid item itemid place placeid venue venueid businessid merchantid shopid storeid "
    "restaurantid hotelid spotid locationid",
    "label": "label clicked click isclick isclicked",
    "time": "time timestamp datetime date ts utctimestamp unixtime epoch localtime checkintime checkinat checkindate "
    "visittime visitdate visitedat visitedon eventtime eventdate createdat createdon",
    "lat": "lat latitude geolat",
    "lon": "lon lng long longitude geolon geolng",
    NAME: "name title poiname itemname placename venuename businessname merchantname shopname storename restaurantname "
    "hotelname displayname fullname firstname lastname username",
}
_HOMES = {"lat": "homelat homelatitude", "lon": "homelon homelng homelong homelongitude"}
_ROW_NUMBERS = "id rowid visitid checkinid reviewid ratingid eventid"
RATINGS = ("rating", "ratings", "stars", "score", "userrating", "reviewscore", "reviewrating")
AXES = {"x": "lon", "y": "lat"}  # or metres on some map, so they are never taken for degrees without a word
_NEAR = 0.86  # of difflib: "lattitude" is near "latitude", "rate" is not near "date"


def _by_name(names: Mapping[str, str]) -> dict[str, str]:
    return {name: role for role, some in names.items() for name in some.split()}


TABLE_OF = _by_name(_TABLES)
ROLE_OF = _by_name(_NAMES)
ROLE_IN = {  # names that mean one thing in one table, and nothing of use in another
    "users": {"id": "user", **_by_name(_HOMES)},
    "pois": {"id": "poi", **dict.fromkeys(_by_name(_HOMES), "a home")},
    "visits": {
        **dict.fromkeys(_by_name(_HOMES), "a home"),
        **dict.fromkeys(_ROW_NUMBERS.split(), "the number of a row"),
    },
}


def squashed(column: str) -> str:
    return "".join(letter for letter in column.lower() if letter.isalnum())


def is_known(column: str) -> bool:
    """Whether a column of this name has a meaning in any table."""
    return any(role_of(column, table) is not None for table in RESERVED)


def role_of(column: str, table: str) -> str | None:
    """What a column of this name is in this table, if the name says so."""
    word = squashed(column)
    return ROLE_OF.get(word) or ROLE_IN[table].get(word)


@dataclass(frozen=True, slots=True)
class Roles:
    """What the columns of one table are."""

    taken: dict[str, str] = field(default_factory=dict)  # role -> column
    ignored: tuple[str, ...] = ()
    asked: dict[str, str] = field(default_factory=dict)  # column -> what is not plain about it
    doubts: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> why, and the kind that may be meant


def roles_of(table: str, columns: Sequence[str], schema: Schema) -> Roles:
    """The role of each column: as schema.toml says, else by its name. Where several have a name for one role, the
    plainest is taken, and the others are asked about."""
    spoken = dict.fromkeys(schema.columns_of(table))
    said = {column: schema.roles[key] for column in spoken if (key := f"{table}.{column}") in schema.roles}
    silent = [column for column in columns if column not in spoken]
    taken, asked = dict[str, str](), dict[str, str]()
    for column, role in said.items():
        if role != IGNORE and taken.setdefault(role, column) != column:
            asked[column] = f"schema.toml names '{taken[role]}' as {role}, too, and only one can be"
    for role in ROLES[table]:
        named = [column for column in silent if role_of(column, table) == role]
        best = [column for column in named if _plainness(column, role) == min(_plainness(c, role) for c in named)]
        if len(best) == 1:
            taken.setdefault(role, best[0])
        for column in named:
            if column != taken.get(role):
                other = taken.get(role) or next(one for one in named if one != column)
                asked[column] = f"looks like {role}, as '{other}' does"
    for column in silent:
        if (meant := role_of(column, table)) is not None and meant not in ROLES[table]:
            asked[column] = f"looks like {meant if meant != NAME else 'a name'}, which {table} have no use for"
    ignored = tuple(column for column, role in said.items() if role == IGNORE)
    features = [column for column in silent if role_of(column, table) is None]
    if not taken.keys() & AXES.values() and {squashed(column) for column in features} >= AXES.keys():
        asked |= {column: _maybe_degrees(table, column) for column in features if squashed(column) in AXES}
    return Roles(taken, ignored, asked, _doubts(table, [c for c in features if c not in asked], taken))


def asks(column: str, table: str) -> bool:
    """Whether the name of a feature is one that is taken for something else, or asked about."""
    return role_of(column, table) is not None or squashed(column) in AXES


def axis_of(column: str, table: str) -> str | None:
    """Whether a column called x or y is a longitude or a latitude, if it is in degrees and the table has any."""
    return None if table == "visits" else AXES.get(squashed(column))


def _maybe_degrees(table: str, column: str) -> str:
    role = axis_of(column, table)
    degrees = f'{role} (kind = "{role}")' if role else 'a coordinate, which visits have none of (kind = "ignore")'
    return f'may be {degrees}, or metres on some map (kind = "number")'


def _plainness(column: str, role: str) -> int:
    """The lower, the plainer: user, User, user_id, uid, person."""
    word = squashed(column)
    return [column == role, word == role, word == f"{role}id", word.endswith("id"), True].index(True)


def _doubts(table: str, features: Sequence[str], taken: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Features that may have been meant for something else."""
    doubts = {}
    for column in features:
        near = get_close_matches(squashed(column), ROLE_OF, n=1, cutoff=_NEAR)
        if table == "visits" and squashed(column) in RATINGS:
            why = (
                "is read as context, as if it were known before the visit; declare its range and name it in "
                'features.averages, or leave it out with kind = "ignore"'
            )
            doubts[column] = (why, IGNORE)
        elif (role := AXES.get(squashed(column), "")) in taken:
            why = f"is read as a feature, beside '{taken[role]}'; if it is a coordinate, leave it out"
            doubts[column] = (f'{why} with kind = "ignore"', IGNORE)
        elif role:
            wanted = "leave it out: visits have no coordinates" if table == "visits" else f'say kind = "{role}"'
            doubts[column] = (
                f"is read as a feature; if it is in degrees, {wanted}",
                IGNORE if table == "visits" else role,
            )
        elif near and len(squashed(column)) > 3 and ROLE_OF[near[0]] in RESERVED[table]:
            role = ROLE_OF[near[0]]
            doubts[column] = (f"is read as a feature; did you mean '{near[0]}'?", IGNORE if role in taken else role)
    return doubts


def ask(table: str, column: str, problem: str) -> str:
    """The error text for a column whose role is not clear."""
    return (
        f'{problem}; say in schema.toml what it is: kind = "ignore" below [{table}.{column}] leaves it out '
        "(`prirec data check` proposes a schema.toml)"
    )
