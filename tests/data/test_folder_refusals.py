"""What is wrong with a data folder is said with file, line and column, and without a private value."""

import gzip
import pickle
import traceback
from contextlib import suppress

import numpy as np
import polars as pl
import pytest

from prirec.data.folder import read_folder
from prirec.errors import DataError

GOOD = "user,poi\nann,bar\n"


def refusal(path, *, strict=False, **files):
    path.mkdir(exist_ok=True)
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (path / f"{name}.csv").write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_folder(path, strict=strict)
    return caught.value


def place(error):
    return error.file.name, error.line, error.column


def test_a_missing_folder_says_what_a_folder_needs(tmp_path):
    assert "visits.csv" in str(refusal_of_missing(tmp_path / "nowhere"))
    assert "visits.csv" in str(refusal_of_missing(tmp_path))


def refusal_of_missing(path):
    with pytest.raises(DataError) as caught:
        read_folder(path)
    return caught.value


def test_two_files_for_one_table_are_refused(tmp_path):
    pl.DataFrame({"user": [1], "poi": [1]}).write_parquet(tmp_path / "visits.parquet")
    assert "visits.csv and visits.parquet" in str(refusal(tmp_path, visits=GOOD))


@pytest.mark.parametrize("text", ["", "\n\n", "user,poi\n"])
def test_an_empty_file_is_refused(tmp_path, text):
    assert refusal(tmp_path, visits=text).file.name == "visits.csv"


def test_a_missing_column_is_named_with_its_likely_misspelling(tmp_path):
    error = refusal(tmp_path, visits="users,poi\n1,1\n")
    assert place(error) == ("visits.csv", 1, "user")
    assert "did you mean 'users'" in str(error)


def test_a_column_named_twice_or_not_at_all_is_refused(tmp_path):
    assert place(refusal(tmp_path, visits="user,poi,a,a\n1,1,1,1\n")) == ("visits.csv", 1, "a")
    assert place(refusal(tmp_path, visits="user,poi,\n1,1,1\n")) == ("visits.csv", 1, None)


@pytest.mark.parametrize("text", ["1,ann,secret-clinic\n", "ann,ann,secret-clinic\n", "user1,poi1\nuser2,poi2\n"])
@pytest.mark.parametrize(
    ("table", "needed"), [("visits", "'user' and 'poi'"), ("pois", "name 'poi'"), ("users", "name 'user'")]
)
def test_a_first_line_that_names_nothing_is_not_shown(tmp_path, text, table, needed):
    (tmp_path / "schema.toml").write_text(f"[{table}.usual]\nkind = 'category'\n")
    error = refusal(tmp_path, **{"visits": GOOD, table: text})
    assert place(error) == (f"{table}.csv", 1, None)
    assert "first line does not name the columns" in str(error)
    assert needed in str(error)
    assert not any(cell in str(error) for cell in ("ann", "clinic", "user1", "poi1"))


@pytest.mark.parametrize("name", ["user", '"user"'])
@pytest.mark.parametrize(("separator", "told"), [(";", "';'"), ("\t", "tabs")])
def test_separators_other_than_commas_are_named_in_the_error(tmp_path, name, separator, told):
    error = refusal(tmp_path, visits=f"{name}{separator}poi\nann{separator}bar\n")
    assert place(error) == ("visits.csv", 1, None)
    assert f"separated by {told}: use commas" in str(error)


def test_columns_of_parquet_without_a_known_name_are_not_shown(tmp_path):
    pl.DataFrame({"ann": ["bob"], "clinic": ["bar"]}).write_parquet(tmp_path / "visits.parquet")
    error = refusal_of_missing(tmp_path)
    assert "'user' and 'poi'" in str(error)
    assert "ann" not in str(error)
    assert "clinic" not in str(error)


@pytest.mark.parametrize("column", ["lat", "lon"])
def test_coordinates_among_the_visits_are_refused_with_where_they_belong(tmp_path, column):
    error = refusal(tmp_path, visits=f"user,poi,{column}\nann,bar,35.5\n")
    assert place(error) == ("visits.csv", None, column)
    assert "in pois" in str(error)
    assert "in users" in str(error)


def test_a_row_with_too_many_cells_is_found(tmp_path):
    error = refusal(tmp_path, visits="user,poi\n1,1\n\n2,2\n3,3,3\n")
    assert place(error) == ("visits.csv", 5, None)
    assert "more cells in a row than there are columns" in str(error)


def test_an_open_quote_and_foreign_bytes_are_found(tmp_path):
    assert place(refusal(tmp_path, visits='user,poi\n1,1\n2,"2\n3,3\n')) == ("visits.csv", 3, None)
    assert place(refusal(tmp_path, visits=b"user,poi\n1,1\n2,\xe9\n")) == ("visits.csv", 3, None)


def test_a_truncated_gzip_or_parquet_file_is_refused(tmp_path):
    whole = gzip.compress(b"user,poi\n" + b"1,1\n" * 1000)
    (tmp_path / "visits.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert refusal_of_missing(tmp_path).file.name == "visits.csv.gz"
    (tmp_path / "visits.csv.gz").unlink()
    (tmp_path / "visits.parquet").write_bytes(b"PAR1 but no more")
    assert refusal_of_missing(tmp_path).file.name == "visits.parquet"


@pytest.mark.parametrize("cell", [b"bar", b"caf\xe9"], ids=["text", "not UTF-8"])
@pytest.mark.parametrize("at", range(0, 1000, 40))
def test_a_changed_byte_of_a_gzip_file_is_refused_or_does_not_matter(tmp_path, at, cell):
    file, rng = tmp_path / "visits.csv.gz", np.random.default_rng(0)
    rows = b"".join(b"%d,%d\n" % (user, poi) for user, poi in rng.integers(900, size=(3000, 2)))
    whole = gzip.compress(b"user,poi\n" + rows + b"1," + cell + b"\n" + rows)
    for place in (at, len(whole) * at // 1000, len(whole) - 1 - at):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        with suppress(DataError):
            assert len(read_folder(tmp_path).dataset.visits) == 6001
            continue
        assert refusal_of_missing(tmp_path).file == file


def test_lines_are_counted_through_quoted_line_breaks_and_blank_lines(tmp_path):
    text = 'user,poi,note,label\n1,1,"two\nlines",1\n\n1,2,"a\nb\nc",1\n1,3,x,7\n'
    assert place(refusal(tmp_path, visits=text)) == ("visits.csv", 8, "label")


def test_the_row_of_a_parquet_file_is_counted_from_one(tmp_path):
    pl.DataFrame({"user": [1, 1], "poi": [1, 2], "label": [1, 5]}).write_parquet(tmp_path / "visits.parquet")
    assert place(refusal_of_missing(tmp_path)) == ("visits.parquet", 2, "label")


@pytest.mark.parametrize(
    ("header", "good", "bad", "column"),
    [
        ("user,poi", "1,1", ",2", "user"),
        ("user,poi", "1,1", "2,", "poi"),
        ("user,poi", "1,1", "2", "poi"),
        ("user,poi,label", "1,1,1", "2,2,2", "label"),
        ("user,poi,label", "1,1,1", "2,2,", "label"),
        ("user,poi,label", "1,1,1", "2,2,yes", "label"),
        ("user,poi,label", "1,1,1", "2,2,nan", "label"),
        ("user,poi,time", "1,1,1", "2,2,", "time"),
        ("user,poi,time", "1,1,1", "2,2,yesterday", "time"),
        ("user,poi,time", "1,1,1", "2,2,2012-02-30", "time"),
        ("user,poi,time", "1,1,1", "2,2,1.5", "time"),
        ("user,poi,time", "1,1,1", "2,2,1333476006000", "time"),
        ("user,poi,price", "1,1,1.5", "2,2,nan", "price"),
        ("user,poi,price", "1,1,1.5", "2,2,-inf", "price"),
        ("user,poi,price", "1,1,1.5", "2,2,1e999", "price"),
    ],
)
def test_a_bad_cell_is_found_with_line_and_column(tmp_path, header, good, bad, column):
    assert place(refusal(tmp_path, visits=f"{header}\n{good}\n{bad}\n")) == ("visits.csv", 3, column)


def test_nan_in_parquet_is_refused(tmp_path):
    frame = pl.DataFrame({"user": [1, 1], "poi": [1, 2], "price": [1.0, float("nan")]})
    frame.write_parquet(tmp_path / "visits.parquet")
    assert place(refusal_of_missing(tmp_path)) == ("visits.parquet", 2, "price")


def test_fractional_ids_and_dates_as_features_are_refused(tmp_path):
    pl.DataFrame({"user": [1.5], "poi": [1]}).write_parquet(tmp_path / "visits.parquet")
    assert refusal_of_missing(tmp_path).column == "user"
    frame = pl.DataFrame({"user": [1], "poi": [1], "day": pl.Series(["2020-01-01"]).str.to_date()})
    frame.write_parquet(tmp_path / "visits.parquet")
    assert refusal_of_missing(tmp_path).column == "day"


@pytest.mark.parametrize(("table", "column"), [("pois", "poi"), ("users", "user")])
def test_an_id_that_is_not_listed_or_listed_twice_is_refused(tmp_path, table, column):
    unlisted = refusal(tmp_path, visits="user,poi\nann,ann\nbob,bob\n", **{table: f"{column}\nann\n"})
    assert place(unlisted) == ("visits.csv", 3, column)
    assert f"{table}.csv" in str(unlisted)
    twice = refusal(tmp_path, visits=GOOD, **{table: f"{column}\nann\nbar\nann\n"})
    assert place(twice) == (f"{table}.csv", 4, column)


@pytest.mark.parametrize(
    ("rows", "line", "column", "hint"),
    [
        ("bar,35,139\ninn,139,35", 3, "lat", "swapped"),
        ("bar,35,139\ninn,-91,139", 3, "lat", "-90"),
        ("bar,35,139\ninn,35,181", 3, "lon", "-180"),
        ("bar,35,139\ninn,35,", 3, "lon", "together"),
        ("bar,35,139\ninn,,139", 3, "lat", "together"),
        ("bar,35,139\ninn,north,139", 3, "lat", "number"),
        ("bar,35,139\ninn,,", 3, "lat", "1 %"),
    ],
)
def test_bad_coordinates_are_found(tmp_path, rows, line, column, hint):
    error = refusal(tmp_path, visits=GOOD, pois=f"poi,lat,lon\n{rows}\n")
    assert place(error) == ("pois.csv", line, column)
    assert hint in str(error)


def test_latitude_without_longitude_is_refused(tmp_path):
    assert place(refusal(tmp_path, visits=GOOD, users="user,lat\nann,1\n")) == ("users.csv", None, "lat")


def test_strict_refuses_a_repeated_visit(tmp_path):
    assert place(refusal(tmp_path, strict=True, visits="user,poi\n1,1\n2,1\n1,1\n")) == ("visits.csv", 4, None)


@pytest.mark.parametrize(
    "files", [{"visits": "user,poi,label\nann,bar,7\n"}, {"visits": GOOD, "schema": "[users.age]\nkind = 'number'\n"}]
)
def test_a_refusal_reaches_another_process_with_its_words(tmp_path, files):
    (tmp_path / "schema.toml").write_text(files.get("schema", ""))
    error = refusal(tmp_path, visits=files["visits"])
    assert type(error) is not DataError
    again = pickle.loads(pickle.dumps(error))  # noqa: S301  # made on the spot
    assert isinstance(again, DataError)
    assert str(again) == str(error)


def test_no_refusal_echoes_a_private_value(tmp_path):
    hidden = "x7hidden"
    cases = [
        {"visits": f"user,poi\n{hidden},bar\n", "users": "user\nann\n"},
        {"visits": f"user,poi,label\nann,bar,{hidden}\n"},
        {"visits": f"user,poi,time\nann,bar,{hidden}\n"},
        {"visits": f"user,poi\nann,bar,{hidden}\n"},
        {"visits": f'user,poi\nann,"{hidden}\n'},
        {"visits": GOOD, "users": f"user,lat,lon\nann,{hidden},3\n"},
        {"visits": GOOD, "users": f"user\n{hidden}\n{hidden}\n"},
    ]
    for number, files in enumerate(cases):
        error = refusal(tmp_path / str(number), **files)
        assert hidden not in "".join(traceback.format_exception(error))
