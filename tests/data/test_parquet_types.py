"""Columns of Parquet have types: what has one obvious meaning is read as that, all else is refused by name."""

from datetime import date, timedelta
from decimal import Decimal

import polars as pl
import pytest

from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.errors import DataError
from support import messages

TEXT = ["1", "0", "1"]
CATEGORIES = {"categorical": pl.Categorical, "enum": pl.Enum(["1", "0"]), "the other enum": pl.Enum(["0", "1"])}
MEANINGLESS = {
    "bytes": pl.Series([b"1", b"0", b"1"]),
    "durations": pl.Series([timedelta(seconds=1)] * 3),
    "lists of lists": pl.Series([[["1"]], [["0"]], [["1"]]]),
    "lists of structures": pl.Series([[{"a": 1}]] * 3),
    "lists of bytes": pl.Series([[b"\xff"]] * 3),
    "lists of dates": pl.Series([[date(2024, 1, 1)]] * 3),
    "lists of durations": pl.Series([[timedelta(seconds=1)]] * 3),
    "structures": pl.Series([{"a": 1}] * 3),
    "arrays": pl.Series([[1, 2]] * 3, dtype=pl.Array(pl.Int64, 2)),
}


def folder(path, *, table="visits", **columns):
    """Three people at three places, and these columns."""
    tables = {
        "visits": {"user": ["a", "b", "c"], "poi": ["p", "q", "r"]},
        "pois": {"poi": ["p", "q", "r"]},
        "users": {"user": ["a", "b", "c"]},
    }
    path.mkdir()
    for name, cells in tables.items():
        pl.DataFrame({**cells, **(columns if name == table else {})}).write_parquet(path / f"{name}.parquet")
    return path


def refusal(path):
    with pytest.raises(DataError) as caught:
        read_folder(path)
    return caught.value.file.name, caught.value.column


@pytest.mark.parametrize("kind", CATEGORIES)
def test_categories_are_read_as_the_text_that_they_stand_for(tmp_path, kind):
    cells = pl.Series(TEXT, dtype=CATEGORIES[kind])
    visits = read_folder(folder(tmp_path / "visits", label=cells, time=cells)).dataset.visits
    assert (visits.label.tolist(), visits.time.tolist()) == ([1, -1, 1], [1, 0, 1])
    places = read_folder(folder(tmp_path / "pois", table="pois", lat=cells, lon=cells, word=cells)).dataset.places
    assert places.location.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert [places.columns["word"].words[code] for code in places.columns["word"].codes] == TEXT


@pytest.mark.parametrize("kind", CATEGORIES)
def test_parts_hold_the_text_of_categories_too(tmp_path, kind):
    source = folder(tmp_path / "whole", label=pl.Series(TEXT, dtype=CATEGORIES[kind]))
    partition_folder(source, tmp_path / "parts", parts=2)
    assert read_folder(tmp_path / "parts").dataset.visits.label.tolist() == [1, -1, 1]


def test_a_blank_category_is_an_empty_cell(tmp_path):
    cells = pl.Series(["a", " ", "b"], dtype=pl.Categorical)
    assert read_folder(folder(tmp_path / "word", word=cells)).dataset.visits.context["word"].codes.tolist() == [
        0,
        -1,
        1,
    ]
    assert refusal(folder(tmp_path / "id", user=cells)) == ("visits.parquet", "user")


def test_decimals_and_truth_values_are_labels(tmp_path):
    for name, cells in (("decimal", [Decimal(1), Decimal(0), Decimal(1)]), ("logical", [True, False, True])):
        assert read_folder(folder(tmp_path / name, label=cells)).dataset.visits.label.tolist() == [1, -1, 1]


@pytest.mark.parametrize("kind", MEANINGLESS)
@pytest.mark.parametrize(
    ("table", "column"),
    [("visits", "label"), ("visits", "time"), ("visits", "user"), ("pois", "lat"), ("pois", "a"), ("users", "a")],
)
def test_types_without_a_meaning_are_refused_with_file_and_column(tmp_path, kind, table, column):
    cells = {column: MEANINGLESS[kind], **({"lon": [1, 2, 3]} if column == "lat" else {})}
    assert refusal(folder(tmp_path / "data", table=table, **cells)) == (f"{table}.parquet", column)


@pytest.mark.parametrize(("table", "column"), [("visits", "user"), ("users", "a")])
def test_types_without_a_meaning_are_refused_before_partitioning(tmp_path, table, column):
    source = folder(tmp_path / "data", table=table, **{column: MEANINGLESS["lists of lists"]})
    with pytest.raises(DataError) as caught:
        partition_folder(source, tmp_path / "parts", parts=2)
    assert (caught.value.file.name, caught.value.column) == (f"{table}.parquet", column)


@pytest.mark.parametrize("ids", [[1.0, 2.0, 3.0], [True, False, True]])
def test_partitioning_takes_the_ids_that_reading_takes(tmp_path, ids):
    source = folder(tmp_path / "data", user=ids)
    assert refusal(source) == ("visits.parquet", "user")
    with pytest.raises(DataError, match=messages.IDS_NOT_TEXT):
        partition_folder(source, tmp_path / "parts", parts=2)


def test_true_and_false_are_no_degrees(tmp_path):
    for name, cells in (("logical", [True, False, True]), ("text", ["true", "false", "true"])):
        path = folder(tmp_path / name, table="pois", lat=cells, lon=[1, 2, 3])
        assert refusal(path) == ("pois.parquet", "lat")


def test_tags_have_no_spaces_around_them_and_are_never_empty(tmp_path):
    (tmp_path / "visits.csv").write_text("user,poi,mood\na,p,art | rainy\nb,q,art|  |\nc,r, rainy|art|art \n")
    found = read_folder(tmp_path).dataset.visits.context["mood"]
    assert found.words == ("art", "rainy")
    assert (found.offsets.tolist(), found.codes.tolist()) == ([0, 2, 3, 5], [0, 1, 0, 0, 1])
    lists = read_folder(folder(tmp_path / "lists", mood=[["art ", " "], [None, "art"], None]))
    assert lists.dataset.visits.context["mood"].words == ("art",)
