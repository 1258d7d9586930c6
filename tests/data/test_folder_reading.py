"""What a data folder turns into when everything in it is right."""

import gzip

import numpy as np
import polars as pl
import pytest

from prirec.data.dataset import Category, Numbers, Tags
from prirec.data.folder import read_folder


def folder(path, **files):
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.csv").write_text(text, encoding="utf-8")
    return path


def visits(path, text, **files):
    return read_folder(folder(path, visits=text, **files)).dataset


def words(column, row):
    if isinstance(column, Category):
        return None if column.codes[row] < 0 else column.words[column.codes[row]]
    return [column.words[code] for code in column.codes[column.offsets[row] : column.offsets[row + 1]]]


def test_visits_alone_are_enough(tmp_path):
    loaded = read_folder(folder(tmp_path / "town", visits="user,poi\nann,bar\nbob,inn\n"))
    data = loaded.dataset
    assert (data.name, data.people.ids, data.places.ids) == ("town", ("ann", "bob"), ("bar", "inn"))
    assert data.visits.person.tolist() == [0, 1]
    assert data.visits.label.tolist() == [1, 1]
    assert data.visits.time is None
    assert not data.labelled
    assert loaded.notes == ()


def test_arrays_have_the_promised_types(tmp_path):
    data = visits(tmp_path, "user,poi,label,time,device\n1,2,1,5,a\n", pois="poi,lat,lon\n2,1,2\n")
    kinds = [data.visits.person, data.visits.place, data.visits.label, data.visits.time, data.places.location]
    assert [array.dtype for array in kinds] == [np.int32, np.int32, np.int8, np.int64, np.float64]
    assert data.visits.context["device"].codes.dtype == np.int32


def test_whole_number_ids_stand_in_the_order_of_numbers(tmp_path):
    data = visits(tmp_path, "user,poi\n10,x\n9,y10\n2,y9\n")
    assert data.people.ids == ("2", "9", "10")
    assert data.places.ids == ("x", "y10", "y9")
    assert data.visits.person.tolist() == [2, 1, 0]


def test_a_table_sets_the_order_and_keeps_those_without_visits(tmp_path):
    data = visits(tmp_path, "user,poi\nann,bar\n", users="user,age\nzoe,30\nann,\n", pois="poi\ninn\nbar\n")
    assert data.people.ids == ("zoe", "ann")
    assert data.visits.person.tolist() == [1]
    assert data.visits.place.tolist() == [1]
    np.testing.assert_array_equal(data.people.columns["age"].values, [30.0, np.nan])


def test_labels_of_zero_and_minus_one_mean_ignored(tmp_path):
    data = visits(tmp_path, "user,poi,label\n1,1,1\n1,2,0\n1,3,-1\n")
    assert data.labelled
    assert data.visits.label.tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    "written",
    [
        "1333476006",
        "2012-04-03T18:00:06",
        "2012-04-03 18:00:06",
        "2012-04-03T18:00:06Z",
        "2012-04-03T18:00:06+09:00",
        "2012-04-03T18:00:06-0330",
        "2012-04-03T18:00:06.75+09",
    ],
)
def test_time_is_the_local_wall_clock_whatever_its_zone(tmp_path, written):
    assert visits(tmp_path, f"user,poi,time\n1,1,{written}\n").visits.time.tolist() == [1333476006]


def test_a_date_is_its_midnight_and_a_minute_its_beginning(tmp_path):
    data = visits(tmp_path, "user,poi,time\n1,1,1970-01-02\n1,1,1970-01-01T00:02\n1,1,90\n")
    assert data.visits.time.tolist() == [86400, 120, 90]


def test_columns_are_numbers_categories_or_tags(tmp_path):
    pois = "poi,seats,kind,tags,open,blank\n1,12.5,café,b|a|b,true,\n2,,,,FALSE,\n3,1e3,bar,|c|,,\n"
    columns = visits(tmp_path, "user,poi\n1,1\n", pois=pois).places.columns
    assert list(columns) == ["seats", "kind", "tags", "open", "blank"]
    np.testing.assert_array_equal(columns["seats"].values, [12.5, np.nan, 1000.0])
    assert columns["kind"].words == ("bar", "café")
    assert [words(columns["kind"], row) for row in range(3)] == ["café", None, "bar"]
    assert isinstance(columns["tags"], Tags)
    assert [words(columns["tags"], row) for row in range(3)] == [["a", "b"], [], ["c"]]
    np.testing.assert_array_equal(columns["open"].values, [1.0, 0.0, np.nan])
    assert np.isnan(columns["blank"].values).all()


def test_every_other_column_of_visits_is_context(tmp_path):
    data = visits(tmp_path, "user,poi,label,time,price,device\n1,1,1,5, 3 ,web\n1,2,1,5,4,app\n")
    assert list(data.visits.context) == ["price", "device"]
    assert data.visits.context["price"].values.tolist() == [3.0, 4.0]
    assert data.visits.context["device"].words == ("app", "web")


@pytest.mark.parametrize(
    ("header", "row"), [("user,poi,time", "1,1,7"), ("user,poi", "1,1"), ("user,poi,label", "1,1,0")]
)
def test_a_repeated_visit_is_left_out_and_counted(tmp_path, header, row):
    loaded = read_folder(folder(tmp_path / "x", visits=f"{header}\n{row}\n{row}\n{row}\n"))
    assert len(loaded.dataset.visits) == 1
    assert loaded.notes == ("2 duplicate visits left out",)


def test_the_first_of_repeated_visits_is_kept(tmp_path):
    data = visits(tmp_path, "user,poi,label,shop\n1,1,0,early\n1,1,1,late\n2,1,1,other\n")
    assert data.visits.label.tolist() == [-1, 1]
    assert data.visits.context["shop"].words == ("early", "other")


def test_the_same_visit_at_another_time_is_another_visit(tmp_path):
    assert len(visits(tmp_path, "user,poi,time\n1,1,7\n1,1,8\n").visits) == 2


def test_a_poi_without_coordinates_is_kept_and_counted(tmp_path):
    pois = "poi,lat,lon\n0,,\n" + "".join(f"{poi},10,20\n" for poi in range(1, 100))
    loaded = read_folder(folder(tmp_path / "x", visits="user,poi\n1,1\n", pois=pois))
    assert np.isnan(loaded.dataset.places.location[0]).all()
    assert loaded.dataset.places.location[1].tolist() == [10.0, 20.0]
    assert loaded.notes == ("1 POI without coordinates kept, with no place on the map",)


def test_people_may_all_be_without_coordinates(tmp_path):
    data = visits(tmp_path, "user,poi\n1,1\n", users="user,lat,lon\n1,,\n2,,\n")
    assert np.isnan(data.people.location).all()


def test_a_number_column_with_a_few_words_is_noticed(tmp_path):
    loaded = read_folder(folder(tmp_path / "x", visits="user,poi\n1,1\n", users="user,age\n1,20\n2,n/a\n3,30\n"))
    assert isinstance(loaded.dataset.people.columns["age"], Category)
    assert loaded.notes == ("users.csv, column 'age': 1 of 3 cells are not numbers, so all are read as words",)


def test_blank_lines_a_byte_order_mark_and_dos_line_ends_are_harmless(tmp_path):
    (tmp_path / "visits.csv").write_bytes(b"\xef\xbb\xbfuser,poi\r\n1,2\r\n\r\n3,4\r\n\r\n")
    data = read_folder(tmp_path).dataset
    assert (data.people.ids, data.places.ids) == (("1", "3"), ("2", "4"))


def test_gzipped_csv_is_read(tmp_path):
    (tmp_path / "visits.csv.gz").write_bytes(gzip.compress(b"user,poi\n1,2\n"))
    assert read_folder(tmp_path).dataset.people.ids == ("1",)


def test_parquet_types_are_believed(tmp_path):
    frame = pl.DataFrame(
        {
            "user": [10, 9],
            "poi": ["a", "b"],
            "label": [True, False],
            "time": pl.Series(["2012-04-03T18:00:06", "1970-01-01T00:00:00"])
            .str.to_datetime()
            .dt.replace_time_zone("Asia/Tokyo"),
            "digits": ["1", None],
            "tags": [["x", "y"], []],
            "sunny": [True, None],
        }
    )
    frame.write_parquet(tmp_path / "visits.parquet")
    data = read_folder(tmp_path).dataset
    assert data.people.ids == ("9", "10")
    assert data.visits.label.tolist() == [1, -1]
    assert data.visits.time.tolist() == [1333476006, 0]
    assert data.visits.context["digits"].words == ("1",)
    assert words(data.visits.context["tags"], 0) == ["x", "y"]
    assert isinstance(data.visits.context["sunny"], Numbers)
