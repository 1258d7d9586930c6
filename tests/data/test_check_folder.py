"""A check lists all that is wrong or doubtful at once, with lines and without cells, and proposes a schema.toml."""

import re
import tomllib

import polars as pl
import pytest

import prirec
from prirec.data.check import check_folder
from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.errors import DataError, UsageError
from support import messages

HIDDEN = "x7hidden"
TABLES = {
    "visits.csv": (
        "user_id,venue_id,timestamp,rating,uid,label\n"
        "ann,bar,2012-04-03,5,1,1\n"
        f"bob,inn,{HIDDEN},3,2,{HIDDEN}\n"  # two problems in one row
        "ann,gone,2012-04-03,5,1,1\n"
        f"bob,bar,2012-04-03,4,1,1,{HIDDEN}\n"
        "cy,bar\n"
        "bob,zoo,2012-04-03,4,1,1\n"
    ),
    "pois.csv": (
        "venue_id,latitude,lng,name,kind\n"
        "bar,35.1,139.0,Noodle Bar,food\n"
        "inn,35.2,139.1,Inn,beds\n"
        f"inn,35.2,139.1,{HIDDEN},beds\n"
        f"zoo,{HIDDEN},139.2,Zoo,fun\n"
    ),
    "users.csv": f"user_id,age,gender,email,name\nann,31,f,{HIDDEN},{HIDDEN}\nbob,900,,{HIDDEN},x\ncy,40,m,y,z\n",
    "schema.toml": (
        '[users.age]\nlow = 0\nhigh = 120\n[users.agee]\nkind = "number"\n[users.gender]\nkind = "words"\n'
        '[shops.kind]\nkind = "category"\n'
    ),
}
EXPECTED = {
    "there is no table 'shops'": None,
    "schema.toml, column 'gender': kind is one of": None,
    "schema.toml, column 'agee': users.csv has no such column; did you mean 'age'?": None,
    "visits.csv, column 'uid': looks like user, as 'user_id' does": None,
    "users.csv, column 'name': looks like a name": None,
    "visits.csv, line 5: more cells in a row": 1,
    "visits.csv, line 3, column 'timestamp'": 2,  # one with words in it, and one without a cell
    "visits.csv, line 3, column 'label'": 2,
    "pois.csv, line 4, column 'venue_id': this id is there twice": 1,
    "pois.csv, line 5, column 'latitude': not a finite number": 1,
    "users.csv, line 3, column 'age': outside the range": 1,
    "visits.csv, line 4, column 'venue_id': this id is not in pois.csv": 1,
}


def folder(path, files):
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / name).write_text(text)
    return path


def test_everything_is_listed_at_once_and_nothing_twice(tmp_path):
    found = check_folder(folder(tmp_path / "city", TABLES))
    for words, rows in EXPECTED.items():
        assert [one.rows for one in found.problems if words in one.words] == [rows], words
    assert len(found.problems) == len(EXPECTED), [one.words for one in found.problems]
    for words in ("'rating' is read as context", "'name' is shown", "1 row has fewer cells than columns, line 6"):
        assert any(words in doubt for doubt in found.doubts), words
    assert HIDDEN not in f"{found!r} {found.to_dict()} {found.schema}"


def test_visits_of_a_row_that_is_wrong_are_not_blamed(tmp_path):
    """The visit to the zoo is right: the zoo's own row is not."""
    found = check_folder(folder(tmp_path / "city", TABLES))
    assert not any("line 7" in one.words for one in found.problems)


def test_what_is_proposed_settles_what_was_asked_and_declares_nothing_from_the_cells(tmp_path):
    files = {name: text for name, text in TABLES.items() if name != "schema.toml"}
    path = folder(tmp_path / "city", files)
    found = prirec.check_folder(path)
    assert '[visits.uid]\nkind = "ignore"' in found.schema
    assert '[visits.user_id]\nkind = "user"' in found.schema
    assert '[visits.rating]\nkind = "ignore"' in found.schema
    assert '[pois.name]\nkind = "name"' in found.schema
    assert "[users.gender]\n# values = " in found.schema
    assert '"f"' not in found.schema
    assert found.write_schema() == path / "schema.toml"
    again = prirec.check_folder(path)
    assert {one.rows for one in again.problems} == {1, 2}
    assert again.schema == ""
    assert not any("rating" in doubt for doubt in again.doubts)
    with pytest.raises(UsageError, match=messages.SCHEMA_IS_THERE):
        again.write_schema()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_without_a_known_name_are_to_be_named_in_the_proposal(tmp_path, suffix):
    path = folder(
        tmp_path, {"visits.csv": f"who,where_to,moment\n{HIDDEN},bar,2012-04-03\n", "users.csv": "user,age\na,3\n"}
    )
    if suffix == "parquet":
        pl.read_csv(path / "visits.csv").write_parquet(path / "visits.parquet")
        (path / "visits.csv").unlink()
    with pytest.raises(DataError, match=messages.columns_not_named("visits", "user")):
        read_folder(path)
    found = check_folder(path)
    assert [bool(re.search(messages.columns_not_named("visits", "user"), one.words)) for one in found.problems] == [
        True
    ]
    assert "who" not in f"{found!r} {found.to_dict()}"  # a first line that names nothing may be somebody's visit
    asked = found.schema.partition("[users")[0]
    assert f"visits.{suffix}" in asked
    for role in ("user", "poi", "time", "label"):
        assert f'# [visits.COLUMN]\n# kind = "{role}"\n' in asked
    assert tomllib.loads(found.schema) == {"users": {"age": {}}}
    answer = asked
    for column, role in (("who", "user"), ("where_to", "poi"), ("moment", "time")):
        answer = answer.replace(f'# [visits.COLUMN]\n# kind = "{role}"', f'[visits.{column}]\nkind = "{role}"')
    (path / "schema.toml").write_text(answer)
    (path / "users.csv").unlink()
    assert check_folder(path).problems == ()


def test_doubts_about_a_table_do_not_wait_for_visits_that_can_be_read(tmp_path):
    pois = "poi,lat,lon,x\nbar,35,139,1\n"
    found = check_folder(folder(tmp_path, {"visits.csv": "who,where_to\nann,bar\n", "pois.csv": pois}))
    assert ["'x' is read as a feature, beside 'lon'" in doubt for doubt in found.doubts] == [True]


def test_coordinates_of_visits_are_proposed_to_be_ignored(tmp_path):
    path = folder(tmp_path, {"visits.csv": "user,poi,lat,longitude\nann,bar,1,2\n"})
    found = check_folder(path)
    assert [one.words[:10] for one in found.problems] == ["visits.csv"]
    found.write_schema()
    assert not check_folder(path).problems


def test_a_folder_is_sound_for_the_check_if_and_only_if_it_is_read(tmp_path):
    sound = folder(tmp_path / "sound", {"visits.csv": "user,poi\nann,bar\n", "pois.csv": "poi,kind\nbar,food\n"})
    found = check_folder(sound)
    assert (found.problems, found.doubts, found.schema) == ((), (), "")
    assert read_folder(sound).notes == ()


WHOLE = {
    "no visits": ({"pois.csv": "poi,lat,lon\nbar,95,1\n"}, ["holds no visits", "latitude is between"]),
    "no user": (
        {"visits.csv": "place,whereabouts\nbar,x\n", "users.csv": "user,lat\nann,1\n"},
        ["column 'user': there is no such column", "lat and lon come together"],
    ),
    "no poi": (
        {"visits.csv": "user,poi\nann,bar\n", "pois.csv": "lat,kind\n1,x\n"},
        ["column 'poi': there is no such column", "lat and lon come together"],
    ),
    "not TOML": ({"visits.csv": "user,poi\nann,\n", "schema.toml": "[users"}, ["is not TOML", "the id is empty"]),
    "a section": ({"visits.csv": "user,poi\nann,bar\n", "schema.toml": "users = 3"}, ["[users.COLUMN]"]),
    "no rows left": ({"visits.csv": "user,poi,label\nann,bar,7\nbob,bar,8\n"}, ["a label is 1"]),
    "swapped": (
        {
            "visits.csv": "user,poi\n" + "".join(f"u{n},bar\n" for n in range(12)),
            "pois.csv": "poi,lat,lon\nbar,35.6,51.4\n",
            "users.csv": "user,lat,lon\n" + "".join(f"u{n},51.4,35.6\n" for n in range(12)),
        },
        ["they look swapped"],
    ),
    "coordinates of visits": ({"visits.csv": "user,poi,lat,lon\nann,bar,1,2\n"}, ["belong in pois"]),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_wrong_with_a_table_as_a_whole_does_not_hide_the_rest(tmp_path, name):
    files, expected = WHOLE[name]
    found = check_folder(folder(tmp_path, files))
    assert len(found.problems) == len(expected), [one.words for one in found.problems]
    for one, words in zip(found.problems, expected, strict=True):
        assert words in one.words


def test_a_partitioned_folder_is_checked_as_a_whole(tmp_path):
    folder(tmp_path / "city", {"visits.csv": "user,poi\nann,bar\nbob,bar\n"})
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=2)
    assert not check_folder(tmp_path / "parts").problems
    (tmp_path / "parts" / "pois.parquet").write_bytes(b"PAR1")
    assert [one.rows for one in check_folder(tmp_path / "parts").problems] == [None]


def test_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(DataError, match=messages.NO_SUCH_FOLDER):
        check_folder(tmp_path / "nowhere")


# Bad rows left out


SPOILT = {
    "a label": ("user,poi,label\nann,bar,1\nbob,bar,7\n", {}, ["visits.csv: 1 row left out, line 3: a label is 1"]),
    "a time": ("user,poi,time\nann,bar,1\nbob,bar,soon\ncy,bar,late\n", {}, ["2 rows left out, the first in line 3"]),
    "an id": ("user,poi\nann,bar\n,bar\n", {}, ["1 row left out, line 3: the id is empty"]),
    "a cell too many": ("user,poi\nann,bar\nbob,bar,7\n", {}, ["1 row left out, line 3: more cells in a row"]),
    "a number": ("user,poi,spent\nann,bar,1\nbob,bar,inf\n", {}, ["1 row left out, line 3: not a finite number"]),
    "a place": ("user,poi\nann,bar\nbob,inn\n", {"pois.csv": "poi\nbar\n"}, ["line 3: this id is not in pois.csv"]),
    "a place's row": (
        "user,poi\nann,bar\nbob,inn\nbob,inn\n",
        {"pois.csv": "poi,lat,lon\nbar,1,2\ninn,91,2\n"},
        ["pois.csv: 1 row left out, line 3", "2 rows left out, the first in line 3: they name rows of pois.csv"],
    ),
    "a declared word": (
        "user,poi,mood\nann,bar,a|b\nbob,bar,a|c\n",
        {"schema.toml": '[visits.mood]\nvalues = ["a", "b"]\n'},
        ["visits.csv: 1 row left out, line 3: not among the values"],
    ),
    "two things": (
        "user,poi,label,time\nann,bar,1,1\nbob,bar,7,1\nbob,bar,1,soon\n",
        {},
        ["1 row left out, line 3: a label", "1 row left out, line 4: a time"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_bad_rows_are_left_out_and_counted(tmp_path, name):
    visits, more, notes = SPOILT[name]
    path = folder(tmp_path / "city", {"visits.csv": visits, **more})
    with pytest.raises(DataError):
        read_folder(path)
    loaded = read_folder(path, skip_bad=True)
    assert [loaded.dataset.people.ids[row] for row in loaded.dataset.visits.person] == ["ann"]
    for words in notes:
        assert sum(words in note for note in loaded.notes) == 1, loaded.notes
    assert check_folder(path).problems
    found = check_folder(path, skip_bad=True)
    assert not found.problems
    assert any("left out" in doubt for doubt in found.doubts)


def test_frames_leave_bad_rows_out_too():
    frame = pl.DataFrame({"user": ["ann", "bob"], "poi": ["bar", "bar"], "label": [1, 7]})
    with pytest.raises(DataError):
        prirec.City(frame)
    city = prirec.City(frame, skip_bad=True)
    assert (city.records, city.people) == (1, ("ann",))
    assert any("1 row left out: a label is 1" in note for note in city.notes)


def test_a_column_that_is_wrong_is_not_a_bad_row(tmp_path):
    path = folder(tmp_path, {"visits.csv": "user,poi,lat\nann,bar,1\n"})
    with pytest.raises(DataError, match=messages.COORDINATES_OF_VISITS):
        read_folder(path, skip_bad=True)


def test_a_table_of_which_no_row_is_left_is_refused(tmp_path):
    path = folder(tmp_path, {"visits.csv": "user,poi,label\nann,bar,7\n"})
    with pytest.raises(DataError, match=messages.in_column("label", line=2)):
        read_folder(path, skip_bad=True)
    assert [one.rows for one in check_folder(path, skip_bad=True).problems] == [1]


@pytest.mark.parametrize("skip_bad", [True, False])
def test_bad_rows_of_a_table_without_its_ids_are_no_traceback(tmp_path, skip_bad):
    files = {"visits.csv": "user,poi\nann,bar\n", "users.csv": "lat,lon\n1,2\n1,2,3\n"}
    with pytest.raises(DataError):
        read_folder(folder(tmp_path, files), skip_bad=skip_bad)


def test_strict_and_skip_bad_contradict_each_other(tmp_path):
    path = folder(tmp_path, {"visits.csv": "user,poi\nann,bar\n"})
    with pytest.raises(UsageError, match=messages.STRICT_AND_SKIP_BAD):
        read_folder(path, strict=True, skip_bad=True)


# Short rows


@pytest.mark.parametrize("quote", ["", '"'])
def test_short_rows_are_counted_with_the_line_of_the_first(tmp_path, quote):
    text = f"user,poi,time,mood\n{quote}ann{quote},bar,1,glad\n\nann,bar,2\nbob,bar,3,\nbob,bar,4\n"
    loaded = read_folder(folder(tmp_path, {"visits.csv": text}))
    assert len(loaded.dataset.visits) == 4
    assert loaded.notes == (
        "visits.csv: 2 rows have fewer cells than columns, the first in line 4; missing cells are read as empty",
    )


# One folder, three commands that read it: the same notes, in whatever order


UNTIDY = {
    "checkins.csv": "user_id,poi,visited_on,party,rating\n"
    "ann,bar,5,2,1\nann,bar,5,2,1\nbob,inn,6,many,2\nbob,bar,yesterday,3,3\ncid,inn,7,4,4\ndan,gym,8,5,5\neve,inn,9,6,5\n"
    ",bar,10,1,1\nann,nowhere,11,2,2\nann,inn,12\n",
    "pois.csv": "poi,name,lat,lon,size\nbar,Bar,1,2,3\ninn,Inn,1,2,big\ngym,Gym,95,2,4\n"
    "bar,Again,1,2,5\nzoo,Zoo,1,2,6\n",
    "users.csv": "user,age,lat,lon\nann,30,1,2\nbob,40,1,2\ncid,50,1,\ndan,60,1,2\neve,70,1,2\nfay,80,1,2\n",
    "weather.csv": "day,rain\n1,2\n",
}


def untidy(path):
    path.mkdir()
    for name, text in UNTIDY.items():
        (path / name).write_text(text)
    return path


def test_a_check_that_skips_bad_rows_says_all_that_reading_says(tmp_path):
    city = untidy(tmp_path / "city")
    found = check_folder(city, skip_bad=True)
    assert not found.problems
    assert sorted(found.doubts) == sorted(read_folder(city, skip_bad=True).notes)


def test_a_partition_skips_the_same_rows_and_says_the_same(tmp_path):
    city = untidy(tmp_path / "city")
    whole = read_folder(city, skip_bad=True)
    made = partition_folder(city, tmp_path / "parts", parts=2, skip_bad=True)
    assert sorted(made.notes) == sorted(whole.notes)
    parts = read_folder(tmp_path / "parts")
    assert parts.dataset.people.ids == whole.dataset.people.ids
    assert parts.dataset.places.ids == whole.dataset.places.ids
    assert parts.dataset.visits.time.tolist() == whole.dataset.visits.time.tolist()
    assert (made.partition.people, made.partition.records) == (len(parts.dataset.people), len(parts.dataset.visits))


def test_a_partition_without_skipping_is_refused_by_the_first_bad_row(tmp_path):
    with pytest.raises(DataError):
        partition_folder(untidy(tmp_path / "city"), tmp_path / "parts", parts=2)
    assert not (tmp_path / "parts").exists()
