"""Written and read back, a data set is the same."""

import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.data.dataset import Category, Dataset, Declared, Numbers, People, Places, Tags, Visits
from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.data.write_folder import write_folder
from prirec.errors import PassingError, UsageError
from support import messages
from support.cities import small_city
from support.full_disk import largest_file

FORMATS = ("csv", "parquet")
TEXT = st.characters(exclude_categories=("Cs",), exclude_characters="\x00")
WORD = st.one_of(
    st.text(TEXT, min_size=1, max_size=6),
    st.sampled_from(
        ["1", "-2.5", "true", "false", "nan", "inf", "a|b", "a,b", '"', "'", " x ", "NULL", "é", "2020-01-01"]
    ),
).filter(lambda word: word.strip() != "")
TAG = WORD.filter(lambda word: not set(word) & set("|\n\r") and word == word.strip())
REAL = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def numbers(draw, size):
    wanted = draw(st.sampled_from([REAL, st.integers(-(2**60), 2**60).map(float), st.sampled_from([0.0, 1.0])]))
    cells = st.lists(st.one_of(st.just(float("nan")), wanted), min_size=size, max_size=size)
    return Numbers(np.array(draw(cells), dtype=np.float64))


@st.composite
def category(draw, size):
    cells = draw(st.lists(st.one_of(st.none(), WORD), min_size=size, max_size=size))
    words = sorted({cell for cell in cells if cell is not None})
    return Category(np.array([-1 if cell is None else words.index(cell) for cell in cells], np.int32), tuple(words))


@st.composite
def tags(draw, size):
    rows = draw(st.lists(st.sets(TAG, max_size=3).map(sorted), min_size=size, max_size=size))
    words = sorted({word for row in rows for word in row})
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    codes = np.array([words.index(word) for row in rows for word in row], np.int32)
    return Tags(offsets, codes, tuple(words))


def columns(size):
    names = TAG.map(lambda word: f"c{word}") | st.sampled_from(["name", "user_id", "Latitude", "rating", "poi name"])
    return st.dictionaries(names, st.one_of(numbers(size), category(size), tags(size)), max_size=4)


def location(size):
    pair = st.tuples(st.floats(-90, 90), st.floats(-180, 180))
    return st.none() | st.lists(pair, min_size=size, max_size=size).map(lambda pairs: np.array(pairs, dtype=np.float64))


def names(size):
    return st.just(()) | st.lists(st.just("") | WORD, min_size=size, max_size=size).map(tuple)


@st.composite
def datasets(draw):
    people, places = (tuple(draw(st.lists(WORD, min_size=1, max_size=5, unique=True))) for _ in range(2))
    pairs = st.tuples(st.integers(0, len(people) - 1), st.integers(0, len(places) - 1))
    rows = np.array(draw(st.lists(pairs, min_size=1, max_size=8, unique=True)), dtype=np.int32)
    labelled, size = draw(st.booleans()), len(rows)
    times = st.lists(st.integers(-62_135_596_800, 253_402_300_799), min_size=size, max_size=size)
    labels = st.lists(st.sampled_from([-1, 1]), min_size=size, max_size=size) if labelled else st.just([1] * size)
    return Dataset(
        name="city",
        people=People(people, draw(location(len(people))), draw(columns(len(people)))),
        places=Places(places, draw(location(len(places))), draw(columns(len(places))), draw(names(len(places)))),
        visits=Visits(
            person=rows[:, 0].copy(),
            place=rows[:, 1].copy(),
            label=np.array(draw(labels), np.int8),
            time=draw(st.none() | times.map(lambda values: np.array(values, np.int64))),
            context=draw(columns(size)),
        ),
        labelled=labelled,
    )


def flat(value):
    """Everything comparable inside a data set, arrays as type and bytes' worth of values."""
    if value is None or isinstance(value, str | bool | tuple | float):
        return value
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, np.where(np.isnan(value), "nan", value.astype(object)).tolist()
    if isinstance(value, dict):
        return [(key, flat(inner)) for key, inner in value.items()]
    return type(value).__name__, [flat(getattr(value, name)) for name in value.__dataclass_fields__]


def back(dataset, *, table_format):
    with tempfile.TemporaryDirectory() as parent:
        path = Path(parent) / dataset.name
        write_folder(dataset, path, table_format=table_format)
        loaded = read_folder(path, strict=True)
        assert sorted(child.name for child in Path(parent).iterdir()) == [dataset.name]
    return loaded.dataset


@pytest.mark.parametrize("table_format", FORMATS)
@settings(max_examples=50)
@given(dataset=datasets())
def test_what_is_written_reads_back_the_same(table_format, dataset):
    assert flat(back(dataset, table_format=table_format)) == flat(dataset)


def town(**changes):
    dataset = Dataset(
        name="town",
        people=People(("ann", "bob"), None, {"zip": Category(np.array([0, 1], np.int32), ("01", "02"))}),
        places=Places(("bar",), np.array([[35.0, 139.0]])),
        visits=Visits(np.array([0], np.int32), np.array([0], np.int32), np.array([1], np.int8)),
        labelled=False,
        declared={"users.zip": Declared(words=("01", "02", "03"))},
    )
    return replace(dataset, **changes)


@pytest.mark.parametrize("table_format", FORMATS)
def test_what_is_declared_reads_back(table_format):
    assert flat(back(town(), table_format=table_format)) == flat(town())


def test_labels_are_written_only_where_they_are_known(tmp_path):
    write_folder(town(), tmp_path / "plain")
    write_folder(town(labelled=True), tmp_path / "labelled")
    assert (tmp_path / "plain" / "visits.csv").read_text() == "user,poi\nann,bar\n"
    assert (tmp_path / "labelled" / "visits.csv").read_text() == "user,poi,label\nann,bar,1\n"


def test_an_empty_target_is_filled_and_a_used_one_refused(tmp_path):
    target = tmp_path / "new"
    target.mkdir()
    write_folder(town(), target)
    before = sorted(target.iterdir())
    with pytest.raises(UsageError, match=messages.FOLDER_NOT_EMPTY):
        write_folder(town(), target)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=messages.FILE_FOR_A_NEW_FOLDER):
        write_folder(town(), tmp_path / "file")
    assert sorted(target.iterdir()) == before


def places(**changes):
    return {"places": replace(town().places, **changes)}


def column(made):
    return places(columns={"x": made})


ONE = np.zeros(1, np.int32)
SPAN = np.array([0, 1], np.int64)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        (column(Tags(SPAN, ONE, ("a|b",))), messages.WORD_WITH_LINE_BREAK),
        (column(Tags(SPAN, ONE, ("a\nb",))), messages.WORD_WITH_LINE_BREAK),
        (column(Tags(SPAN, ONE, (" ",))), messages.WORD_BLANK),
        (column(Tags(SPAN, ONE, (" a",))), messages.WORD_WITH_SPACES_AROUND),
        (column(Category(ONE, ("",))), messages.WORD_BLANK),
        (column(Numbers(np.array([np.inf]))), messages.NUMBER_INFINITE),
        (places(columns={"lat": Numbers(np.zeros(1))}), messages.COLUMN_NAME_TAKEN),
        (places(columns={"a\nb": Numbers(np.zeros(1))}), messages.COLUMN_NAME_TAKEN),
        (places(ids=("",)), messages.IDS_NOT_DISTINCT),
        (places(location=np.array([[np.nan, np.nan]])), messages.TOO_MANY_PLACES_WITHOUT_COORDINATES),
        (places(location=np.array([[np.nan, 3.0]])), messages.ONE_COORDINATE),
        (places(location=np.array([[139.0, 35.0]])), messages.OUTSIDE_DEGREES),
        ({"visits": town().visits.take(np.array([], np.int64))}, messages.NO_VISITS_TO_WRITE),
        ({"visits": replace(town().visits, label=-np.ones(1, np.int8))}, messages.LABELS_WOULD_BE_LOST),
        ({"declared": {"users.age": Declared(low=0, high=1)}}, messages.DECLARED_COLUMN_MISSING),
        ({"declared": {"users.zip": Declared(low=0)}}, messages.DECLARATION_INCOMPLETE),
    ],
)
def test_what_could_not_be_read_back_is_refused_and_leaves_nothing_behind(tmp_path, changes, hint):
    with pytest.raises(UsageError, match=hint):
        write_folder(town(**changes), tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("how", ["write", "partition"])
def test_a_full_disk_is_blamed_on_the_disk_and_leaves_nothing_behind(tmp_path, kind, how):
    city = tmp_path / "city"
    write_folder(small_city(records=6000), city, table_format=kind)
    before = sorted(tmp_path.rglob("*"))
    write = {
        "write": partial(write_folder, small_city(records=6000), table_format=kind),
        "partition": partial(partition_folder, city, parts=1),
    }[how]
    with pytest.raises(PassingError, match=messages.DISK_FULL), largest_file(8_000):
        write(tmp_path / "new")
    assert sorted(tmp_path.rglob("*")) == before
