"""schema.toml: what is publicly known about private columns."""

import pytest

from prirec.data.dataset import Category, Declared, Tags
from prirec.data.folder import read_folder
from prirec.data.schema import Schema, read_schema, schema_text
from prirec.errors import DataError
from support import messages

VISITS = "user,poi,device\nann,bar,web\nbob,bar,app\n"
USERS = "user,gender,age,zip\nann,female,30,01\nbob,,40,02\n"


def folder(path, schema, users=USERS, visits=VISITS):
    (path / "visits.csv").write_text(visits)
    (path / "users.csv").write_text(users)
    (path / "pois.csv").write_text("poi,code\nbar,7\n")
    (path / "schema.toml").write_text(schema, encoding="utf-8")
    return path


def refusal(path, schema, **tables):
    with pytest.raises(DataError) as caught:
        read_folder(folder(path, schema, **tables))
    return caught.value


def test_words_and_ranges_are_declared(tmp_path):
    words = '[users.gender]\nvalues = ["male", "female"]\n[visits.device]\nvalues = ["app", "web"]\n'
    schema = words + "[users.age]\nlow = 0\nhigh = 100\n"
    declared = read_folder(folder(tmp_path, schema)).dataset.declared
    assert declared == {
        "users.gender": Declared(words=("male", "female")),
        "users.age": Declared(low=0.0, high=100.0),
        "visits.device": Declared(words=("app", "web")),
    }


def test_a_column_with_declared_words_or_kind_is_text_though_it_looks_like_numbers(tmp_path):
    schema = '[users.zip]\nvalues = ["01", "02", "03"]\n[pois.code]\nkind = "category"\n'
    data = read_folder(folder(tmp_path, schema)).dataset
    assert data.people.columns["zip"].words == ("01", "02")
    assert data.places.columns["code"].words == ("7",)
    assert set(data.declared) == {"users.zip"}


def test_it_may_begin_with_a_byte_order_mark(tmp_path):
    path = folder(tmp_path, "")
    (path / "schema.toml").write_text("[users.age]\nlow = 0\nhigh = 100\n", encoding="utf-8-sig")
    assert set(read_folder(path).dataset.declared) == {"users.age"}


def test_declared_words_may_stand_in_lists(tmp_path):
    users = "user,likes\nann,a|b\nbob,b\n"
    data = read_folder(folder(tmp_path, '[users.likes]\nvalues = ["a", "b", "c"]', users=users)).dataset
    assert isinstance(data.people.columns["likes"], Tags)
    error = refusal(tmp_path, '[users.likes]\nvalues = ["a"]', users="user,likes\nann,a|a\nbob,a|b\n")
    assert (error.file.name, error.line, error.column) == ("users.csv", 3, "likes")


def test_kind_overrides_the_separator(tmp_path):
    data = read_folder(
        folder(tmp_path, '[users.likes]\nkind = "category"', users="user,likes\nann,a|b\nbob,c\n")
    ).dataset
    assert isinstance(data.people.columns["likes"], Category)
    assert data.people.columns["likes"].words == ("a|b", "c")


@pytest.mark.parametrize(
    ("schema", "file", "line", "column"),
    [
        ('[users.gender]\nvalues = ["male"]', "users.csv", 2, "gender"),
        ("[users.age]\nlow = 0\nhigh = 35", "users.csv", 3, "age"),
        ("[users.gender]\nlow = 0\nhigh = 35", "users.csv", 2, "gender"),
        ('[visits.device]\nvalues = ["web"]', "visits.csv", 3, "device"),
    ],
)
def test_a_value_outside_what_is_declared_is_found_and_not_echoed(tmp_path, schema, file, line, column):
    error = refusal(tmp_path, schema)
    assert (error.file.name, error.line, error.column) == (file, line, column)
    assert not any(value in str(error) for value in ("female", "40", "app"))


@pytest.mark.parametrize(
    ("schema", "hint"),
    [
        ("[user.age]\nlow = 0\nhigh = 1", "did you mean 'users'"),
        ("[users.agee]\nlow = 0\nhigh = 100", "did you mean 'age'"),
        ("[users.age]\nlow = 0\nhihg = 100", "did you mean 'high'"),
        ("[users.age]\nlow = 0", "two numbers"),
        ("[users.age]\nlow = 5\nhigh = 5", "two numbers"),
        ("[users.age]\nlow = 0\nhigh = inf", "two numbers"),
        ("[users.age]\nlow = false\nhigh = 9", "two numbers"),
        ('[users.age]\nlow = 0\nhigh = 9\nvalues = ["1"]', "not both"),
        ("[users.gender]\nvalues = []", "list of words"),
        ("[users.gender]\nvalues = [1, 2]", "list of words"),
        ('[users.gender]\nvalues = ["a", "a"]', "twice"),
        ('[users.gender]\nkind = "word"', "kind is one of"),
        ('[users.gender]\nkind = "number"\nvalues = ["a"]', "numbers have low and high"),
        ('[users.age]\nkind = "tags"\nlow = 0\nhigh = 9', "numbers have low and high"),
        ("[users.lat]\nlow = 0\nhigh = 1", "cannot be declared"),
        ("[pois.code]\nlow = 0\nhigh = 1", "unknown key 'low'"),
        ("users = 3", "[users.COLUMN]"),
        ("[users]\nage = 3", "[users.age]"),
        ("[users.age", "not TOML"),
        pytest.param("[users.age]\nlow = 0\nhigh = 1" + 400 * "0", "two numbers", id="more than any float"),
        pytest.param("[users.age]\nlow = -1" + 400 * "0" + "\nhigh = 1", "two numbers", id="less than any float"),
        pytest.param("[users.age]\nlow = 0\nhigh = " + 5000 * "1", "not TOML", id="thousands of digits"),
        pytest.param("a = " + 100_000 * "[", "not TOML", id="nested without end"),
        ("[users.age]\nlow = nan\nhigh = 1", "two numbers"),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused_with_the_remedy(tmp_path, schema, hint):
    error = refusal(tmp_path, schema)
    assert error.file.name == "schema.toml"
    assert hint in str(error)


def test_a_declaration_for_a_table_that_is_not_there_is_refused(tmp_path):
    folder(tmp_path, "[users.age]\nlow = 0\nhigh = 100")
    (tmp_path / "users.csv").unlink()
    with pytest.raises(DataError, match=messages.TABLE_FOR_DECLARED_COLUMN_MISSING):
        read_folder(tmp_path)


def test_schema_text_reads_back_for_awkward_names(tmp_path):
    declared = {
        'users.a "b".c\n': Declared(words=("x\\", "ü\x7f", "a\tb")),
        "visits.d-1": Declared(low=-1e-7, high=1e20),
    }
    (tmp_path / "schema.toml").write_text(
        schema_text(Schema(declared=declared, kinds={"pois.1": "category"})), encoding="utf-8"
    )
    schema = read_schema(tmp_path)
    assert schema.declared == declared
    assert schema.kinds == {"pois.1": "category"}
