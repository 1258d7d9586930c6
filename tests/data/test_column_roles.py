"""Ids, times, labels, coordinates and names are recognised under other names, or asked about: never learnt from."""

import tomllib

import numpy as np
import polars as pl
import pytest

import prirec
from prirec.data.check import check_folder
from prirec.data.dataset import Numbers
from prirec.data.folder import read_folder, read_public
from prirec.data.partition import partition_folder
from prirec.data.schema import ROLE_OF, role_of
from prirec.data.write_folder import write_folder
from prirec.errors import DataError
from support import messages

PLAIN = {
    "visits": "user,poi,time,label\nann,bar,2012-04-03T18:00:06,1\nbob,inn,2012-04-04T18:00:06,0\n",
    "pois": "poi,lat,lon,kind\nbar,35.1,139.1,food\ninn,35.2,139.2,beds\n",
    "users": "user,lat,lon,age\nann,35.1,139.1,30\nbob,35.3,139.1,40\n",
}


def folder(path, *, schema="", **tables):
    path.mkdir(exist_ok=True)
    for name, text in {**PLAIN, **tables}.items():
        (path / f"{name}.csv").write_text(text)
    if schema:
        (path / "schema.toml").write_text(schema)
    return path


def renamed(**names):
    """The plain tables with other names in their headers."""
    tables = {}
    for table, text in PLAIN.items():
        header, rest = text.split("\n", 1)
        tables[table] = ",".join(names.get(column, column) for column in header.split(",")) + "\n" + rest
    return tables


NAMES = [
    {
        "user": "user_id",
        "poi": "poi_id",
        "time": "timestamp",
        "lat": "latitude",
        "lon": "longitude",
        "label": "clicked",
    },
    {"user": "userId", "poi": "item_id", "time": "Datetime", "lat": "Lat", "lon": "lng", "label": "Label"},
    {"user": "UID", "poi": "venue_id", "time": "visited at", "lat": "LATITUDE", "lon": "long", "label": "is_click"},
    {"user": "User", "poi": "POI", "time": "Time", "lat": "LAT", "lon": "LON", "label": "LABEL"},
    {"user": "member_id", "poi": "shop_id", "time": "visited_on", "lat": "geo_lat", "lon": "geo_lng", "label": "click"},
]


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names["user"])
def test_other_names_read_as_the_plain_ones(tmp_path, names):
    plain = read_folder(folder(tmp_path / "city"))
    other = read_folder(folder(tmp_path / "other", **renamed(**names)))
    for side in ("people", "places"):
        one, two = getattr(plain.dataset, side), getattr(other.dataset, side)
        assert (one.ids, one.location.tolist(), list(one.columns)) == (
            two.ids,
            two.location.tolist(),
            list(two.columns),
        )
    assert other.dataset.visits.time.tolist() == plain.dataset.visits.time.tolist()
    assert other.dataset.visits.label.tolist() == [1, -1]
    assert not other.dataset.visits.context
    assert any(f"'{names['user']}' as user" in note for note in other.notes)


@pytest.mark.parametrize("names", NAMES, ids=lambda names: names["user"])
def test_frames_are_read_by_the_same_names(names):
    tables = {name: pl.read_csv(text.encode()) for name, text in renamed(**names).items()}
    city = prirec.City(**tables)
    assert city.people == ("ann", "bob")
    assert city.dataset.places.location.tolist() == [[35.1, 139.1], [35.2, 139.2]]
    assert list(city.dataset.people.columns) == ["age"]
    assert not city.dataset.visits.context


@pytest.mark.parametrize("names", NAMES[:2], ids=lambda names: names["user"])
def test_a_partition_has_the_plain_names(tmp_path, names):
    city = folder(tmp_path / "city", **renamed(**names))
    partition_folder(city, tmp_path / "parts", parts=2)
    whole, parts = read_folder(city).dataset, read_folder(tmp_path / "parts").dataset
    assert (whole.people.ids, whole.places.ids) == (parts.people.ids, parts.places.ids)
    assert whole.visits.time.tolist() == parts.visits.time.tolist()


def test_an_error_names_the_column_as_the_file_does(tmp_path):
    text = PLAIN["visits"].replace("time", "timestamp").replace("2012-04-04", "yesterday")
    with pytest.raises(DataError) as refused:
        read_folder(folder(tmp_path, visits=text))
    assert (refused.value.file.name, refused.value.line, refused.value.column) == ("visits.csv", 3, "timestamp")


ASKED = [
    ("visits", "user,poi,user_id\nann,bar,7\n", "user_id", "looks like user, as 'user' does"),
    ("visits", "user,poi,venue_id\nann,bar,7\n", "venue_id", "looks like poi, as 'poi' does"),
    ("visits", "user,poi,time,timestamp\nann,bar,1,2\n", "timestamp", "looks like time, as 'time' does"),
    ("visits", "user,poi,venue_name\nann,bar,Bar\n", "venue_name", "looks like a name"),
    ("pois", "poi,user_id\nbar,7\ninn,8\n", "user_id", "looks like user, which pois have no use for"),
    ("pois", "poi,created_at\nbar,7\ninn,8\n", "created_at", "looks like time"),
    ("pois", "poi,lat,lon,latitude\nbar,1,2,1\ninn,1,2,1\n", "latitude", "looks like lat, as 'lat' does"),
    ("users", "user,item_id\nann,7\nbob,8\n", "item_id", "looks like poi"),
    ("users", "user,name\nann,Ann\nbob,Bob\n", "name", "looks like a name"),
    ("visits", "id,user,poi\n1,ann,bar\n", "id", "looks like the number of a row"),
    ("visits", "visit_id,user,poi\n1,ann,bar\n", "visit_id", "looks like the number of a row"),
    ("pois", "poi,home_lat\nbar,1\ninn,2\n", "home_lat", "looks like a home"),
    ("pois", "poi,id\nbar,7\ninn,8\n", "id", "looks like poi, as 'poi' does"),
    ("visits", "person,customer,poi\nann,ann,bar\n", "person", "looks like user, as 'customer' does"),
]


@pytest.mark.parametrize(("table", "text", "column", "words"), ASKED, ids=[f"{a[0]}.{a[2]}" for a in ASKED])
def test_what_is_not_plain_is_asked_about(tmp_path, table, text, column, words):
    with pytest.raises(DataError, match=messages.WHAT_A_COLUMN_IS) as refused:
        read_folder(folder(tmp_path, **{table: text}))
    assert (refused.value.file.name, refused.value.column) == (f"{table}.csv", column)
    assert words in str(refused.value)
    if column != "person":
        assert read_folder(folder(tmp_path, schema=f'[{table}.{column}]\nkind = "ignore"\n', **{table: text}))
        read = read_folder(folder(tmp_path, schema=f'[{table}.{column}]\nkind = "category"\n', **{table: text}))
        data = read.dataset
        features = {"users": data.people.columns, "pois": data.places.columns, "visits": data.visits.context}
        assert column in features[table]


def test_the_plainest_of_several_ids_is_taken_and_the_others_are_asked_about(tmp_path):
    with pytest.raises(DataError, match=messages.WHAT_A_COLUMN_IS) as refused:
        read_folder(folder(tmp_path, visits="uid,user_id,poi\n1,ann,bar\n"))
    assert refused.value.column == "uid"


def test_schema_toml_says_what_a_column_is(tmp_path):
    schema = '[visits.member]\nkind = "user"\n[visits.spot]\nkind = "poi"\n[visits.when]\nkind = "time"\n'
    visits = "member,spot,when,noise\nann,bar,5,1\nbob,inn,6,2\n"
    data = read_folder(folder(tmp_path, schema=schema, visits=visits)).dataset
    assert data.visits.time.tolist() == [5, 6]
    assert [data.people.ids[row] for row in data.visits.person] == ["ann", "bob"]
    assert list(data.visits.context) == ["noise"]
    city = prirec.City(
        visits=[{"member": "ann", "spot": "bar"}],
        schema={"visits": {"member": {"kind": "user"}, "spot": {"kind": "poi"}}},
    )
    assert (city.people, city.places) == (("ann",), ("bar",))


def test_what_is_said_comes_before_what_is_recognised(tmp_path):
    schema = '[visits.login]\nkind = "user"\n[visits.user]\nkind = "ignore"\n'
    data = read_folder(folder(tmp_path, schema=schema, visits="user,login,poi\n1,ann,bar\n2,bob,inn\n")).dataset
    assert data.people.ids == ("ann", "bob")
    with pytest.raises(DataError, match=messages.WHAT_A_COLUMN_IS):  # the other one is still there
        read_folder(folder(tmp_path, schema='[visits.login]\nkind = "user"\n', visits="user,login,poi\n1,ann,bar\n"))


def test_coordinates_of_visits_may_be_ignored(tmp_path):
    visits = "user,poi,latitude,longitude\nann,bar,1,2\n"
    with pytest.raises(DataError, match=messages.COORDINATES_OF_VISITS) as refused:
        read_folder(folder(tmp_path, visits=visits))
    assert refused.value.column == "latitude"
    schema = '[visits.latitude]\nkind = "ignore"\n[visits.longitude]\nkind = "ignore"\n'
    assert not read_folder(folder(tmp_path, schema=schema, visits=visits)).dataset.visits.context


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ('[users.age]\nkind = "name"\n', "kind is one of"),
        ('[users.age]\nkind = "poi"\n', "kind is one of"),
        ('[users.age]\nkind = "ignore"\nlow = 0\nhigh = 9\n', "neither values nor low and high"),
        ('[visits.time]\nkind = "category"\n', "cannot be declared"),
        ('[pois.nothing]\nkind = "name"\n', "has no such column"),
    ],
)
def test_a_kind_that_does_not_fit_is_refused(tmp_path, schema, words):
    with pytest.raises(DataError) as refused:
        read_folder(folder(tmp_path, schema=schema))
    assert words in str(refused.value)


def test_words_that_a_list_cannot_hold_are_refused_unless_they_are_a_category(tmp_path):
    users, declared = "user,likes\nann,a|b\nbob,a\n", '[users.likes]\nvalues = [" a", "b"]\n'
    with pytest.raises(DataError, match=messages.DECLARED_WORD_WITH_SPACES):
        read_folder(folder(tmp_path, schema=declared, users=users))
    spaced = folder(tmp_path, schema=declared + 'kind = "category"\n', users="user,likes\nann, a\nbob,b\n")
    assert read_folder(spaced).dataset.people.columns["likes"].words == (" a", "b")


def test_an_id_and_a_home_mean_what_their_table_is_about(tmp_path):
    tables = {
        "users": PLAIN["users"].replace("user,lat,lon", "id,home_lat,home_lon"),
        "pois": PLAIN["pois"].replace("poi,lat,lon", "ID,x_lat,x_lon").replace("x_", ""),
    }
    plain, other = read_folder(folder(tmp_path / "plain")), read_folder(folder(tmp_path / "other", **tables))
    for side in ("people", "places"):
        one, two = getattr(plain.dataset, side), getattr(other.dataset, side)
        assert (one.ids, one.location.tolist(), list(one.columns)) == (
            two.ids,
            two.location.tolist(),
            list(two.columns),
        )
    assert "users.csv: read 'id' as user, 'home_lat' as lat, 'home_lon' as lon" in other.notes


@pytest.mark.parametrize("table", ["pois", "users"])
def test_x_and_y_are_asked_about_where_there_are_no_coordinates(tmp_path, table):
    text = PLAIN[table].replace("lat,lon", "y,X")
    with pytest.raises(DataError, match=messages.in_column("y", messages.DEGREES_OR_METRES)):
        read_folder(folder(tmp_path, **{table: text}))
    found = check_folder(tmp_path)
    assert len(found.problems) == 2
    assert {name: tomllib.loads(found.schema)[table][name]["kind"] for name in ("X", "y")} == {"X": "lon", "y": "lat"}

    def rows(**kinds):
        said = "".join(f'[{table}.{axis}]\nkind = "{kind}"\n' for axis, kind in kinds.items())
        settled = read_folder(folder(tmp_path, schema=said, **{table: text}))
        assert not settled.notes
        return getattr(settled.dataset, {"pois": "places", "users": "people"}[table])

    assert rows(X="lon", y="lat").location[0].tolist() == [35.1, 139.1]
    assert {"X", "y"} <= rows(X="number", y="number").columns.keys()
    write_folder(read_folder(tmp_path).dataset, tmp_path / "again")  # which says what they are
    assert not read_folder(tmp_path / "again").notes


def test_x_and_y_of_visits_are_asked_about_and_one_of_them_is_mentioned(tmp_path):
    both = PLAIN["visits"].replace("time,label", "x,y")
    with pytest.raises(DataError, match=messages.in_column("x", messages.DEGREES_OR_METRES)):
        read_folder(folder(tmp_path, visits=both))
    assert tomllib.loads(check_folder(tmp_path).schema)["visits"]["x"] == {"kind": "ignore"}
    loaded = read_folder(folder(tmp_path, visits=PLAIN["visits"].replace("label", "x")))
    assert any("'x' is read as a feature" in note for note in loaded.notes)


def test_x_and_y_beside_coordinates_are_features_and_mentioned(tmp_path):
    loaded = read_folder(folder(tmp_path, pois="poi,lat,long,x,y\nbar,35,139,1,2\ninn,35,139,3,4\n"))
    assert list(loaded.dataset.places.columns) == ["x", "y"]
    for axis, other in (("x", "long"), ("y", "lat")):
        assert any(f"'{axis}' is read as a feature, beside '{other}'" in note for note in loaded.notes)
    assert tomllib.loads(check_folder(tmp_path).schema)["pois"]["x"] == {"kind": "ignore"}


# Names of files


FILES = [
    {"visits": "checkins.csv", "pois": "places.csv", "users": "people.csv"},
    {"visits": "check_ins.csv", "pois": "venues.csv", "users": "customers.csv"},
    {"visits": "Reviews.csv", "pois": "businesses.csv", "users": "USERS.CSV"},
    {"visits": "ratings.csv", "pois": "items.csv", "users": "members.csv"},
]


def called(path, files):
    path.mkdir(exist_ok=True)
    for table, file in files.items():
        (path / file).write_text(PLAIN[table])
    return path


@pytest.mark.parametrize("files", FILES, ids=lambda files: files["visits"])
def test_tables_are_found_under_the_names_that_others_give_them(tmp_path, files):
    plain, other = read_folder(folder(tmp_path / "city")), read_folder(called(tmp_path / "other", files))
    assert other.dataset.people.ids == plain.dataset.people.ids
    assert other.dataset.places.location.tolist() == plain.dataset.places.location.tolist()
    assert other.dataset.visits.time.tolist() == plain.dataset.visits.time.tolist()
    assert any(f"{files['pois']} is read as pois" in note for note in other.notes)
    assert check_folder(tmp_path / "other").doubts == other.notes
    assert read_public(tmp_path / "other").places.ids == plain.dataset.places.ids
    partition_folder(tmp_path / "other", tmp_path / "parts", parts=2)
    assert read_folder(tmp_path / "parts").dataset.people.ids == plain.dataset.people.ids


def test_a_table_that_is_not_read_is_mentioned(tmp_path):
    city = called(folder(tmp_path / "city"), {"pois": "places.csv", "users": "weather.csv"})
    notes = read_folder(city).notes
    assert any("places.csv is not read" in note and "pois.csv is" in note for note in notes)
    assert any("weather.csv is not read" in note for note in notes)
    assert check_folder(city).doubts == notes


def test_two_files_for_one_table_are_asked_about(tmp_path):
    city = called(tmp_path / "city", {"visits": "visits.csv", "pois": "places.csv", "users": "venues.csv"})
    with pytest.raises(DataError, match=messages.TWO_FILES_FOR_A_TABLE):
        read_folder(city)


def test_a_folder_without_visits_says_what_is_there(tmp_path):
    city = called(tmp_path / "city", {"visits": "log.csv", "pois": "pois.csv"})
    with pytest.raises(DataError, match=messages.FILES_THAT_ARE_NO_VISITS):
        read_folder(city)


# Names of places


NAMED = "poi,name,kind\nbar,Noodle Bar,food\ninn,,beds\n"


def test_the_name_of_a_place_is_shown_and_not_learnt_from(tmp_path):
    loaded = read_folder(folder(tmp_path / "city", pois=NAMED))
    places = loaded.dataset.places
    assert list(places.columns) == ["kind"]
    assert [places.about(row) for row in (0, 1)] == ["Noodle Bar · food", "beds"]
    assert any("'name' is shown with each place, and not learnt from" in note for note in loaded.notes)
    assert places.take(np.array([False, True])).names == ("",)
    write_folder(loaded.dataset, tmp_path / "again")
    assert read_folder(tmp_path / "again").dataset.places.names == ("Noodle Bar", "")
    assert read_public(tmp_path / "city").places.names == ("Noodle Bar", "")
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=2)
    assert read_folder(tmp_path / "parts").dataset.places.names == ("Noodle Bar", "")


def test_any_column_may_be_the_name_and_a_name_may_be_learnt_from(tmp_path):
    said = read_folder(folder(tmp_path, schema='[pois.sign]\nkind = "name"\n', pois=NAMED.replace("name", "sign")))
    assert said.dataset.places.names == ("Noodle Bar", "")
    assert not any("shown" in note for note in said.notes)
    learnt = read_folder(folder(tmp_path, schema='[pois.name]\nkind = "category"\n', pois=NAMED)).dataset.places
    assert (learnt.names, list(learnt.columns)) == ((), ["name", "kind"])


# Doubts


def test_a_rating_that_becomes_context_is_mentioned(tmp_path):
    text = "user,poi,rating\nann,bar,4\nbob,inn,5\n"
    loaded = read_folder(folder(tmp_path, visits=text))
    assert isinstance(loaded.dataset.visits.context["rating"], Numbers)
    assert any("'rating' is read as context" in note and "features.averages" in note for note in loaded.notes)
    declared = folder(tmp_path, schema="[visits.rating]\nlow = 1\nhigh = 5\n", visits=text)
    assert not any("rating" in note for note in read_folder(declared).notes)


@pytest.mark.parametrize(("name", "meant"), [("lattitude", "latitude"), ("longitud", "longitude")])
def test_a_name_that_is_nearly_known_is_mentioned(tmp_path, name, meant):
    loaded = read_folder(folder(tmp_path, pois=f"poi,{name}\nbar,1\ninn,2\n"))
    assert any(f"'{name}' is read as a feature; did you mean '{meant}'?" in note for note in loaded.notes)


@pytest.mark.parametrize("name", ["kind", "seats", "rate", "state", "type", "price", "late", "age", "line", "login"])
def test_an_ordinary_name_is_a_feature_without_a_word(tmp_path, name):
    loaded = read_folder(folder(tmp_path, pois=f"poi,{name}\nbar,1\ninn,2\n"))
    assert list(loaded.dataset.places.columns) == [name]
    assert loaded.notes == ()


def test_known_names_are_squashed_and_distinct():
    tables = ("visits", "pois", "users")
    assert all(role_of(name, table) == role for name, role in ROLE_OF.items() for table in tables)
