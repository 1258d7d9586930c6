"""The encoding: what stands where in X^ij, and that only a whole one of this version is read back."""

import msgspec
import numpy as np
import pytest

from prirec.data.dataset import Category, Numbers
from prirec.errors import DataError, StateError
from prirec.features.encoding import (
    Clock,
    Distance,
    Encoding,
    Hashed,
    Log,
    Nearest,
    Range,
    Words,
    encode_columns,
    encode_context,
    encode_popularity,
    from_json,
)
from support import messages

FULL = Encoding(
    person=(Range(column="age", low=0.0, high=100.0), Hashed(column="job", buckets=3)),
    place=(Words(column="kind", words=("bar", "café | 茶")), Log(column="price", shift=0.1, scale=1 / 3)),
    popularity=(Log(column="visitors", shift=1.5, scale=0.7),),
    context=(Distance(column="distance from home", shift=1.8, scale=2.0), Clock(column="time"), Log(column="rain")),
)
NAMES = (
    "age", "job: bucket 0", "job: bucket 1", "job: bucket 2", "kind: bar", "kind: café | 茶", "price", "visitors",
    "distance from home", "time: hour sin", "time: hour cos", "time: day sin", "time: day cos", "time: weekend", "rain",
)  # fmt: skip


def test_names_stand_in_the_order_person_place_popularity_context():
    assert FULL.names() == NAMES


def test_groups_name_the_block_of_each_feature():
    group, columns = FULL.groups()
    assert len(group) == len(FULL.names())
    assert columns == ("age", "job", "kind", "price", "visitors", "distance from home", "time", "rain")
    assert [columns[g] for g in group] == [name.split(":")[0] for name in NAMES]


def test_widths_agree_with_names():
    parts = (FULL.person, FULL.place, FULL.popularity, FULL.context)
    assert [FULL.width(part) for part in parts] == [4, 3, 1, 7]
    assert FULL.width(FULL.blocks()) == len(FULL.names())


def test_an_empty_encoding_has_no_features():
    assert Encoding().names() == ()
    assert Encoding().groups()[0].tolist() == []
    assert encode_columns((), {}, 3).shape == (3, 0)


@pytest.mark.parametrize("encoding", [FULL, Encoding()], ids=["full", "empty"])
def test_json_gives_the_same_encoding_back(encoding):
    assert from_json(encoding.to_json()) == encoding


@pytest.mark.parametrize("version", [3, 99, 0, "1", None])
def test_another_version_is_refused(version):
    table = msgspec.json.decode(FULL.to_json()) | {"version": version}
    with pytest.raises(StateError, match=messages.ENCODING_VERSION_UNKNOWN):
        from_json(msgspec.json.encode(table))


def test_a_newer_version_is_named_as_such_even_if_its_blocks_are_unknown():
    with pytest.raises(StateError, match=messages.encoding_version_unknown(3, newest=2)):
        from_json(b'{"version": 3, "person": [{"type": "spline", "knots": 4}]}')


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"version": 1, "unknown": 3}',
     b'{"version": 1, "person": [{"type": "log"}]}', b'{"version": 1, "person": [{"type": "spline", "column": "x"}]}',
     b'{"version": 1, "place": [{"column": "x"}]}'],
)  # fmt: skip
def test_a_damaged_encoding_is_refused(text):
    with pytest.raises(StateError):
        from_json(text)


def test_static_features_and_popularity_of_places():
    columns = {"price": Numbers(np.array([0.0, 3.0])), "kind": Category(np.array([0, -1], dtype=np.int32), ("bar",))}
    static = encode_columns(FULL.place, columns, 2)
    np.testing.assert_allclose(static, [[1, 0, (0 - 0.1) * 3], [0, 0, (np.log(4) - 0.1) * 3]], rtol=1e-6)
    popular = encode_popularity(FULL, {"visitors": np.array([0.0, 9.0]), "visits": np.zeros(2)}, 2)
    np.testing.assert_allclose(popular, [[-1.5 / 0.7], [(np.log(10) - 1.5) / 0.7]], rtol=1e-6)


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match=messages.in_column("job", messages.ENCODING_COLUMN_MISSING)):
        encode_columns(FULL.person, {"age": Numbers(np.zeros(1))}, 1)


def test_missing_popularity_is_named():
    with pytest.raises(DataError, match=messages.in_column("visitors", messages.ENCODING_COLUMN_MISSING)):
        encode_popularity(FULL, {}, 1)


def test_context_that_is_not_known_is_0():
    rain = {"rain": Numbers(np.array([np.nan, np.e - 1]))}
    encoded = encode_context(FULL, rain, km=np.full(2, np.nan), history=(), time=None)
    np.testing.assert_allclose(encoded, [[0] * 7, [0] * 6 + [1]], atol=1e-7)


def test_features_of_the_own_history_stand_where_their_blocks_stand():
    near, rain = Nearest(column="near", shift=0.0, scale=1.0), {"rain": Numbers(np.zeros(2))}
    own = Encoding(context=(near, Log(column="rain"), msgspec.structs.replace(near, column="nearer")))
    made = [block.encode_km(np.array([np.e - 1, np.nan])) for block in (near, near)]
    found = encode_context(own, rain, km=np.zeros(2), history=made, time=None)
    np.testing.assert_allclose(found, [[1, 0, 1], [0, 0, 0]], atol=1e-7)


def test_columns_that_the_encoding_does_not_know_are_left_out():
    columns = {"age": Numbers(np.array([50.0])), "secret": Numbers(np.array([1.0]))}
    assert encode_columns(FULL.person[:1], columns, 1).tolist() == [[0.0]]


def test_a_column_of_people_and_of_places_is_named_with_its_side():
    both = Encoding(person=(Log(column="age"),), place=(Log(column="age"), Words(column="kind", words=("bar",))))
    assert both.names() == ("age (person)", "age (place)", "kind: bar")
    assert both.groups()[1] == ("age (person)", "age (place)", "kind")
