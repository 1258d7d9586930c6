"""Which column is which: ids, times, labels, coordinates and names of places under the names that other programs use.

A column whose name says that it is an id or a coordinate is never silently learnt from. It is taken for what it says
where that is plain; otherwise whoever has the data is asked to say what it is, in schema.toml.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from prirec.data.schema import IGNORE, NAME, RESERVED, ROLES, Schema

# In small letters, without anything between them: userId, USER_ID and "user id" are one.
_NAMES = {
    "user": "user userid uid person personid customer customerid visitorid memberid accountid",
    "poi": "poi poiid item itemid place placeid venue venueid businessid merchantid shopid storeid "
    "restaurantid hotelid spotid locationid",
    "label": "label clicked click isclick isclicked",
    "time": "time timestamp datetime date ts utctimestamp unixtime epoch localtime checkintime checkinat visittime "
    "visitedat eventtime createdat",
    "lat": "lat latitude geolat",
    "lon": "lon lng long longitude geolon geolng",
    NAME: "name title poiname itemname placename venuename businessname merchantname shopname storename restaurantname "
    "hotelname displayname fullname firstname lastname username",
}
ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
RATINGS = ("rating", "ratings", "stars", "score", "userrating", "reviewscore", "reviewrating")
_NEAR = 0.86  # of difflib: "lattitude" is near "latitude", "rate" is not near "date"


def squashed(column: str) -> str:
    return "".join(letter for letter in column.lower() if letter.isalnum())


def role_of(column: str) -> str | None:
    """What a column of this name is, if the name says so."""
    return ROLE_OF.get(squashed(column))


@dataclass(frozen=True, slots=True)
class Roles:
    """What the columns of one table are."""

    taken: dict[str, str] = field(default_factory=dict)  # role -> column
    ignored: tuple[str, ...] = ()
    asked: dict[str, str] = field(default_factory=dict)  # column -> what is not plain about it
    doubts: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> why, and the kind that may be meant


def roles_of(table: str, columns: Sequence[str], schema: Schema) -> Roles:
    """By what schema.toml says, else by the plainest of the names that say it; whatever else says it is asked about."""
    spoken = dict.fromkeys(schema.columns_of(table))
    said = {column: schema.roles[key] for column in spoken if (key := f"{table}.{column}") in schema.roles}
    silent = [column for column in columns if column not in spoken]
    taken, asked = dict[str, str](), dict[str, str]()
    for column, role in said.items():
        if role != IGNORE and taken.setdefault(role, column) != column:
            asked[column] = f"schema.toml names '{taken[role]}' as {role}, too, and only one can be"
    for role in ROLES[table]:
        named = [column for column in silent if role_of(column) == role]
        best = [column for column in named if _plainness(column, role) == min(_plainness(c, role) for c in named)]
        if len(best) == 1:
            taken.setdefault(role, best[0])
        for column in named:
            if column != taken.get(role):
                other = taken.get(role) or next(one for one in named if one != column)
                asked[column] = f"looks like {role}, as '{other}' does"
    for column in silent:
        if (meant := role_of(column)) is not None and meant not in ROLES[table]:
            asked[column] = f"looks like {meant if meant != NAME else 'a name'}, which {table} have no use for"
    ignored = tuple(column for column, role in said.items() if role == IGNORE)
    return Roles(taken, ignored, asked, _doubts(table, [c for c in silent if role_of(c) is None], taken))


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
        elif near and len(squashed(column)) > 3 and ROLE_OF[near[0]] in RESERVED[table]:
            role = ROLE_OF[near[0]]
            doubts[column] = (f"is read as a feature; did you mean '{near[0]}'?", IGNORE if role in taken else role)
    return doubts


def ask(table: str, column: str, problem: str) -> str:
    """The question to whoever has the data."""
    return (
        f'{problem}; say in schema.toml what it is: kind = "ignore" below [{table}.{column}] leaves it out '
        "(`prirec data check` proposes a schema.toml)"
    )
