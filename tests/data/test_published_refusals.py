"""What is wrong with a published file is said with the name and the line of that file, not of the folder made of it."""

import gzip

import pytest

from prirec.data.published import import_published
from prirec.errors import DataError

TIST = {
    "dataset_TIST2015_Checkins.txt": "9\tueno\tTue Apr 03 18:00:06 +0000 2012\t540\n",
    "dataset_TIST2015_POIs.txt": "ueno\t35.71\t139.77\tZoo\tJP\n",
    "dataset_UbiComp2016_UserProfile_TKY.txt": "7\tmale\t2\t2\n\n9\tx\t1\t0\n",
}
TSMC = (
    "1\tv1\tid\tShop\t35.7\t139.6\t540\tTue Apr 03 18:00:06 +0000 2012\n"
    "\t\t\t\t\t\t\t\n"
    "1\tv2\tid\tShop\t{lat}\t139.6\t540\tTue Apr 03 18:00:07 +0000 2012\n"
    "2\tv1\tid\tShop\t35.7\t139.6\t540\tTue Apr 03 18:00:06 +0000 2012\n"
)
SHOWN = "user_id,timestamp,platform,city,device,position,item_id,price,click\n"
PROFILED = "user_id,gender,twitter_friends,twitter_followers,venue_id,lat,lon\n"
YELP = {
    "visits.csv": "user,poi\n0,17\n",
    "pois.csv": "poi,lat,lon\n17,40.3,-80.0\n18,40.3,x\n",
    "poi_categories.csv": "poi,category\n17,0\n",
    "friends.csv": "user,friend\n0,1\n",
}
BAD = {
    "a cell too many": ("yelp", YELP | {"visits.csv": "user,poi\n0,17\n0,17,3\n"}, ("visits.csv", 3, None)),
    "a gender": ("tist2015-tokyo", TIST, ("dataset_UbiComp2016_UserProfile_TKY.txt", 3, "gender")),
    "a latitude": (
        "tsmc2014",
        {"dataset_TSMC2014_TKY.txt": TSMC.format(lat=135)},
        ("dataset_TSMC2014_TKY.txt", 3, "lat"),
    ),
    "a number": (
        "tsmc2014",
        {"dataset_TSMC2014_NYC.txt": TSMC.format(lat="inf").encode() + b"9\tcaf\xe9"},
        ("dataset_TSMC2014_NYC.txt", 3, "lat"),
    ),
    "a label": (
        "trivago",
        {"impressions.csv.gz": SHOWN + 'A,1,FR,"Lyon,\nFrance",tablet,1,h,71,0\n\nA,2,FR,Lyon,tablet,1,h,71,7\n'},
        ("impressions.csv.gz", 5, "click"),
    ),
    "a device": (
        "trivago",
        {"impressions.csv": SHOWN + "A,1,FR,Lyon,tablet,1,h,71,0\nA,2,FR,Lyon,watch,1,h,71,1\n"},
        ("impressions.csv", 3, "device"),
    ),
    "a stranger": (
        "foursquare-tokyo-profiles",
        {"visits.csv": PROFILED + "9,male,1,1,v,35,139\n8,male,1,1,v,35,139\n", "user_profiles.tsv": "9\tmale\t1\t1\n"},
        ("visits.csv", 3, "user_id"),
    ),
    "half a place": ("yelp", YELP, ("pois.csv", 3, "lon")),
    "an id": (
        "koubei2016",
        {"ijcai2016_koubei_train": "1,10,100,20151102\n ,10,100,20151102\n", "ijcai2016_merchant_info": "10,300,100\n"},
        ("ijcai2016_koubei_train", 2, "user_id"),
    ),
    "no id": (
        "foursquare-tokyo",
        {"visits.csv": "user,poi\n2,6\n,6\n", "users.csv": "user,friend_count\n2,1\n"},
        ("visits.csv", 3, "user"),
    ),
}


def imported(tmp_path, name, files):
    source = tmp_path / "source"
    source.mkdir()
    for file, content in files.items():
        content = content if isinstance(content, bytes) else content.encode()
        (source / file).write_bytes(gzip.compress(content) if file.endswith(".gz") else content)
    return import_published(name, source, tmp_path / "target")


@pytest.mark.parametrize("what", BAD)
def test_the_published_file_is_named_with_line_and_column(tmp_path, what):
    name, files, where = BAD[what]
    with pytest.raises(DataError) as caught:
        imported(tmp_path, name, files)
    assert (caught.value.file.name, caught.value.line, caught.value.column) == where
    assert "schema.toml" not in str(caught.value)
    assert not (tmp_path / "target").exists()


def test_payments_and_merchants_without_their_first_cell_are_counted(tmp_path):
    payments = "user_id,merchant_id,location_id,time_stamp\n1,10,100,20151102\n,10,100,20151102\n1,10,101,20151103\n"
    merchants = "10,300,100:101\n11,300,100\n,20,100\n"
    files = {"ijcai2016_koubei_train.csv": payments, "ijcai2016_merchant_info.csv": merchants}
    loaded = imported(tmp_path, "koubei2016", files)
    assert len(loaded.dataset.visits) == 2
    assert loaded.notes == (
        "ijcai2016_koubei_train.csv: 1 incomplete row left out",
        "ijcai2016_merchant_info.csv: 1 incomplete row left out",
    )
