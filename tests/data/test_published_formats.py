"""A few rows in exactly the published form, for each format."""

import gzip

import numpy as np
import pytest

from prirec.data.dataset import Declared, Tags
from prirec.data.folder import read_folder
from prirec.data.published import FORMATS, import_published
from prirec.errors import DataError, UsageError
from support import messages

EVENING = 1333476006  # 2012-04-03 18:00:06 as a wall clock
TOKYO = 540 * 60
IMPRESSIONS = (
    "user_id", "session_id", "timestamp", "step", "platform", "city", "device", "position", "item_id", "price", "click"
)  # fmt: skip


def source(path, files):
    path.mkdir()
    for name, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def imported(tmp_path, name, files, **options):
    return import_published(name, source(tmp_path / "source", files), tmp_path / name, **options)


def pairs(dataset):
    people, places = dataset.people.ids, dataset.places.ids
    return [(people[i], places[j]) for i, j in zip(dataset.visits.person, dataset.visits.place, strict=True)]


def words(column):
    if isinstance(column, Tags):
        bounds = zip(column.offsets[:-1], column.offsets[1:], strict=True)
        return [[column.words[code] for code in column.codes[low:high]] for low, high in bounds]
    return [column.words[code] for code in column.codes]


TIST = {
    "dataset_TIST2015_Checkins.txt": (
        "50756\tshibuya\tTue Apr 03 18:00:06 +0000 2012\t540\n"
        "50756\tlondon\tTue Apr 03 18:00:07 +0000 2012\t60\n"
        "190571\tshibuya\tTue Apr 03 18:00:08 +0000 2012\t540\n"
        "9\tueno\tTue Apr 03 18:00:06 +0000 2012\t540\n"
        "9\tosaka\tTue Apr 03 18:00:06 +0000 2012\t540\n"
        "9\tueno\tsome other day\t540\n"
    ),
    "dataset_TIST2015_POIs.txt": (
        'shibuya\t35.659\t139.7\tCaf\xe9\tJP\nueno\t35.71\t139.77\t"Zoo\tJP\nosaka\t34.7\t135.5\tBar\tJP\n'
        "london\t35.7\t139.7\tPub\tGB\nnobody\t35.7\t139.7\tPub\tJP\n"
    ).encode("latin-1"),
    "dataset_UbiComp2016_UserProfile_TKY.txt": "50756\tmale\t730\t513\n9\tfemale\t1\t0\n7\tmale\t2\t2\n",
}


@pytest.mark.parametrize("table_format", ["csv", "parquet"])
def test_tist_2015_is_cut_to_profiled_people_in_tokyo(tmp_path, table_format):
    loaded = imported(tmp_path, "tist2015-tokyo", TIST, table_format=table_format)
    data = loaded.dataset
    assert pairs(data) == [("50756", "shibuya"), ("9", "ueno")]
    assert data.people.ids == ("9", "50756")
    assert data.visits.time.tolist() == [EVENING + TOKYO] * 2
    assert words(data.people.columns["gender"]) == ["female", "male"]
    assert data.people.columns["friends"].values.tolist() == [1, 730]
    assert data.people.columns["followers"].values.tolist() == [0, 513]
    assert data.places.location.tolist() == [[35.659, 139.7], [35.71, 139.77]]
    assert words(data.places.columns["category"]) == ["Café", '"Zoo']
    assert data.declared == {"users.gender": Declared(words=("female", "male"))}
    assert loaded.notes == ("dataset_TIST2015_Checkins.txt: 1 check-in without a time left out",)
    assert (tmp_path / "tist2015-tokyo" / f"visits.{table_format}").is_file()


TSMC = (
    "1541\tv1\t4bf58dd8\tCosmetics Shop\t35.7051\t139.6196\t540\tTue Apr 03 18:00:06 +0000 2012\n"
    "868\tv2\t4bf58dd8\tCaf\xe9\t35.7155\t139.8\t540\tTue Apr 03 18:00:07 +0000 2012\n"
    "868\tv1\t4bf58dd8\tOther\t35.0\t139.0\t540\tTue Apr 03 18:00:08 +0000 2012\n"
).encode("latin-1")


def test_tsmc_2014_takes_a_venue_from_its_first_row(tmp_path):
    data = imported(tmp_path, "tsmc2014", {"dataset_TSMC2014_TKY.txt": TSMC}).dataset
    assert pairs(data) == [("1541", "v1"), ("868", "v2"), ("868", "v1")]
    assert data.visits.time.tolist() == [EVENING + TOKYO + second for second in range(3)]
    assert words(data.places.columns["category"]) == ["Cosmetics Shop", "Café"]
    assert data.places.location[0].tolist() == [35.7051, 139.6196]
    assert not data.people.columns


def test_tsmc_2014_refuses_two_cities_at_once(tmp_path):
    with pytest.raises(DataError, match=messages.TWO_CITIES_IN_ONE_FOLDER):
        imported(tmp_path, "tsmc2014", {"dataset_TSMC2014_TKY.txt": TSMC, "dataset_TSMC2014_NYC.txt": TSMC})


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_gowalla_counts_friends_and_leaves_out_what_is_off_the_globe(tmp_path, ending):
    checkins = (
        "0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n"
        "0\t2010-10-18T22:17:43Z\t30.2691029532\t-97.7493953705\t420315\n"
        "10\t2010-10-18T22:17:44Z\t31\t-97\t420315\n"
        "2\t2010-10-17T23:42:03Z\t405.25\t-97.7\t316637\n"
        "2\t2010-10-17T23:42:03Z\t0.0\t0.0\t5\n"
        "2\t2010-10-17T23:42:03Z\t1\t1\t5\n"
    )
    edges = "0\t1\n1\t0\n0\t10\n10\t0\n0\t0\n"
    files = {f"loc-gowalla_totalCheckins.txt{ending}": checkins, f"loc-gowalla_edges.txt{ending}": edges}
    loaded = imported(tmp_path, "gowalla", files)
    data = loaded.dataset
    assert pairs(data) == [("0", "22847"), ("0", "420315"), ("10", "420315"), ("2", "5")]
    assert data.people.ids == ("0", "2", "10")
    assert data.people.columns["friend_count"].values.tolist() == [2, 0, 1]
    assert data.places.location[data.places.ids.index("420315")].tolist() == [30.2691029532, -97.7493953705]
    assert data.visits.time[0] == 1287532527
    assert loaded.notes == (
        f"loc-gowalla_totalCheckins.txt{ending}: 1 check-in at coordinates 0, 0 left out",
        f"loc-gowalla_totalCheckins.txt{ending}: 1 check-in outside the globe left out",
    )


def test_brightkite_leaves_out_incomplete_rows(tmp_path):
    place = "88c46bf20db295831bd2d1718ad7e6f5"
    checkins = (
        f"0\t2010-10-17T01:48:53Z\t39.747652\t-104.99251\t{place}\n"
        f"0\t2010-10-16T06:02:04Z\t39.891383\t-105.070814\t{place[::-1]}\n"
        f"1\t2010-10-16T06:02:05Z\t39.891383\t-105.070814\t{place}\n"
        f"1\t2010-10-16T06:02:05Z\t0.0\t0.0\t{'0' * 32}\n"
        "1\t2010-10-16T06:02:06Z\t39.8\t-105.0\t\n"
        "2\t\t\t\t\n"
    )
    files = {"loc-brightkite_totalCheckins.txt": checkins, "loc-brightkite_edges.txt": "0\t1\n1\t0\n"}
    loaded = imported(tmp_path, "brightkite", files)
    assert pairs(loaded.dataset) == [("0", place), ("0", place[::-1]), ("1", place)]
    assert loaded.notes == (
        "loc-brightkite_totalCheckins.txt: 2 incomplete rows left out",
        "loc-brightkite_totalCheckins.txt: 1 check-in at coordinates 0, 0 left out",
    )


@pytest.mark.parametrize("ending", ["", ".csv"])
@pytest.mark.parametrize("headed", [False, True])
def test_koubei_2016_makes_a_poi_of_a_merchant_at_a_location(tmp_path, ending, headed):
    payments = "2,10,100,20151102\n2,10,100,20151102\n1,11,100,20151130\n1,12,7,20151130\n"
    merchants = "10,300,100:101\n11,50,100\n"
    if headed:
        payments = "User_id,Merchant_id,Location_id,Time_Stamp\n" + payments
        merchants = "Merchant_id,Budget,Location_id_list\n" + merchants
    files = {f"ijcai2016_koubei_train{ending}": payments, f"ijcai2016_merchant_info{ending}": merchants}
    loaded = imported(tmp_path, "koubei2016", files)
    data = loaded.dataset
    assert pairs(data) == [("2", "10@100"), ("1", "11@100"), ("1", "12@7")]
    assert data.places.ids == ("10@100", "10@101", "11@100", "12@7")
    np.testing.assert_array_equal(data.places.columns["budget"].values, [300, 300, 50, np.nan])
    np.testing.assert_array_equal(data.places.columns["branches"].values, [2, 2, 1, np.nan])
    assert data.visits.time.tolist() == [1446422400, 1448841600, 1448841600]
    assert loaded.notes == ("1 duplicate visit left out",)


def test_foursquare_tokyo_keeps_the_people_who_went_somewhere(tmp_path):
    files = {"visits.csv": "user,poi\n2,6\n10,6\n", "users.csv": "user,friend_count\n1,14\n2,27\n10,3\n"}
    loaded = imported(tmp_path, "foursquare-tokyo", files)
    assert loaded.dataset.people.ids == ("2", "10")
    assert loaded.dataset.people.columns["friend_count"].values.tolist() == [27, 3]
    assert loaded.notes == ("users.csv: 1 user without a visit left out",)


def test_foursquare_tokyo_counts_numbers_of_friends_that_it_could_not_read(tmp_path):
    files = {"visits.csv": "user,poi\na,p\nb,p\nc,p\nd,q\n", "users.csv": "user,friend_count\na,7\nb,many\nc,\nd,2.5\n"}
    loaded = imported(tmp_path, "foursquare-tokyo", files)
    assert loaded.notes == ("users.csv: 2 unreadable friend_counts left out",)
    np.testing.assert_array_equal(loaded.dataset.people.columns["friend_count"].values, [7, np.nan, np.nan, np.nan])


def test_foursquare_tokyo_profiles_joins_the_two_tables(tmp_path):
    visits = (
        "user_id,gender,twitter_friends,twitter_followers,venue_id,lat,lon\n"
        "246,male,1964,992,4b07,35.466193,139.622691\n246,male,1964,992,4b07,35.466193,139.622691\n"
        "9,female,5,6,4b3a,35.4,139.6\n"
    )
    files = {"visits.csv": visits, "user_profiles.tsv": "246\tmale\t1964\t992\n9\tfemale\t5\t6\n1\tmale\t0\t0\n"}
    loaded = imported(tmp_path, "foursquare-tokyo-profiles", files)
    data = loaded.dataset
    assert pairs(data) == [("246", "4b07"), ("9", "4b3a")]
    assert words(data.people.columns["gender"]) == ["female", "male"]
    assert data.places.location[0].tolist() == [35.466193, 139.622691]
    assert data.declared["users.gender"].words == ("female", "male")
    assert loaded.notes == ("1 duplicate visit left out",)


def test_yelp_drops_ratings_and_counts_friends_both_ways(tmp_path):
    files = {
        "visits.csv": "user,poi,rating,split\n0,17,5,train\n1,17,4,test\n2,9,1,tune\n",
        "pois.csv": "poi,lat,lon\n17,40.3980741,-80.0833859\n9,40.4,-80.0\n",
        "poi_categories.csv": "poi,category\n17,0\n17,12\n17,1\n",
        "friends.csv": "user,friend\n0,1\n1,0\n1,8\n",
    }
    data = imported(tmp_path, "yelp", files).dataset
    assert pairs(data) == [("0", "17"), ("1", "17"), ("2", "9")]
    assert data.people.columns["friend_count"].values.tolist() == [1, 2, 0]
    assert data.places.ids == ("9", "17")
    assert words(data.places.columns["category"]) == [[], ["c0", "c1", "c12"]]
    assert not data.visits.context
    assert not data.labelled


def test_a_changed_byte_of_a_gzipped_trivago_file_is_a_data_error_of_that_file(tmp_path):
    row = "u{0},s,{1},1,FR,Paris,mobile,{2},{3},70,{4}\n".format
    rows = "".join(row(at * 7919 % 500, 1541599553 + at, at % 25 + 1, at * 104729 % 911, at % 2) for at in range(3000))
    whole = gzip.compress((",".join(IMPRESSIONS) + "\n" + rows).encode())
    folder = source(tmp_path / "source", {})
    for at in range(12, len(whole), len(whole) // 40):
        (folder / "impressions.csv.gz").write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(DataError) as caught:
            import_published("trivago", folder, tmp_path / "trivago")
        assert caught.value.file == folder / "impressions.csv.gz"


def test_trivago_keeps_every_impression_and_places_a_hotel_where_it_was_searched_most(tmp_path):
    header = ",".join(IMPRESSIONS) + "\n"
    rows = (
        'A,s,1541599553,3,FR,"Marseille, France",tablet,1,100131,71,0\n'
        'A,s,1541599553,3,FR,"Marseille, France",tablet,2,913787,107,1\n'
        'B,t,1541599554,1,DE,"Lyon, France",mobile,1,100131,70,0\n'
        'B,t,1541599555,2,DE,"Lyon, France",mobile,25,100131,70,1\n'
        'B,t,1541599555,3,DE,"Lyon, France",mobile,1,100131,70,1\n'
    )
    loaded = imported(tmp_path, "trivago", {"impressions.csv.gz": header + rows})
    data = loaded.dataset
    assert data.labelled
    assert data.visits.label.tolist() == [-1, 1, -1, 1]
    assert words(data.places.columns["city"]) == ["Lyon, France", "Marseille, France"]
    assert words(data.people.columns["platform"]) == ["FR", "DE"]
    assert data.visits.context["position"].values.tolist() == [1, 2, 1, 25]
    assert data.visits.context["price"].values.tolist() == [71, 107, 70, 70]
    assert words(data.visits.context["device"]) == ["tablet", "tablet", "mobile", "mobile"]
    assert data.declared["visits.position"] == Declared(low=1.0, high=25.0)
    assert loaded.notes == ("1 duplicate visit left out",)


def test_the_imported_folder_reads_back_as_what_the_import_gave(tmp_path):
    loaded = imported(tmp_path, "tist2015-tokyo", TIST)
    again = read_folder(tmp_path / "tist2015-tokyo", strict=True).dataset
    assert (again.people.ids, again.places.ids, pairs(again)) == (
        loaded.dataset.people.ids,
        loaded.dataset.places.ids,
        pairs(loaded.dataset),
    )


def test_an_unknown_format_is_answered_with_the_nearest(tmp_path):
    with pytest.raises(UsageError, match=messages.did_you_mean("gowalla")):
        import_published("gowala", tmp_path, tmp_path / "new")


def test_an_occupied_target_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "something").write_text("")
    with pytest.raises(UsageError, match=messages.FOLDER_NOT_EMPTY):
        import_published("yelp", tmp_path / "nowhere", tmp_path)


@pytest.mark.parametrize("name", FORMATS)
def test_missing_files_are_named(tmp_path, name):
    with pytest.raises(
        DataError, match=messages.published_folder_needs(FORMATS[name].files[0].split()[0].removesuffix(".gz"))
    ):
        import_published(name, tmp_path / "nowhere", tmp_path / "new")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=messages.PUBLISHED_FILE_MISSING):
        import_published(name, tmp_path / "empty", tmp_path / "new")


@pytest.mark.parametrize(
    "content", ["one column\n" * 9, "a\tb\tc\td\te\tf\tg\th\ti\tj\n" * 9, "a\tb\tc\td\te\tf\tg\th\n"]
)
def test_a_file_in_another_form_is_refused(tmp_path, content):
    with pytest.raises(DataError, match=messages.PUBLISHED_ROW_UNEXPECTED):
        imported(tmp_path, "tsmc2014", {"dataset_TSMC2014_NYC.txt": content})
    assert not (tmp_path / "tsmc2014").exists()


def test_people_from_another_city_leave_nothing_to_import(tmp_path):
    files = {**TIST, "dataset_UbiComp2016_UserProfile_TKY.txt": "1\tmale\t1\t1\n"}
    with pytest.raises(DataError, match=messages.NO_VISIT_LEFT):
        imported(tmp_path, "tist2015-tokyo", files)
