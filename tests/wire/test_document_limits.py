"""Documents that would wear a device out, or that nobody could follow, are refused by the house's errors when read."""

from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.config import loads
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.encoding import AnyBlock, Area, Clock, Distance, Encoding, Hashed, Log, Range, Words, from_json
from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Masked, Round
from prirec.recommender.limits import Limits
from prirec.wire.documents import MOST_AVERAGES
from prirec.wire.http import (
    MOST_CAMPAIGNS,
    MOST_CELLS,
    MOST_OCTETS,
    MOST_RECORDS,
    MOST_SHARED,
    Mail,
    most_records,
    refuse_oversized,
)
from support import messages
from support.cities import SMALL_PRIVATE, change
from support.dishonest_recommender import ENCODING

GOOD = 'preset = "private"\n'


@pytest.mark.parametrize(
    "text",
    ["x = = 1", GOOD + "x = " + "[" * 20_000, GOOD + "iterations = " + "9" * 5000, GOOD + "iterations = " + "9" * 400,
     GOOD + "[linear]\nalpha = " + "9" * 400, GOOD + "[linear]\nalpha = nan", "\0", GOOD + "#" * 70_000,
     "preset = 1979-05-27"],
)  # fmt: skip
def test_invalid_settings_are_a_usage_error_and_never_crash(text: str) -> None:
    with pytest.raises(UsageError):
        loads(text)


def _encoded(*blocks: AnyBlock) -> bytes:
    return msgspec.json.encode({"version": 1, "context": blocks})


@pytest.mark.parametrize(
    "text",
    [b'{"version":1,"person":' + b"[" * 200_000, b'{"version":' + b"[" * 200_000 + b"]" * 200_000 + b"}", b"\xff",
     b'{"version":1,"person":"\xff"}', b'{"version":' + b"9" * 5000 + b"}", b'{"version":1e999}',
     _encoded(Hashed(column="a", buckets=0)), _encoded(Hashed(column="a", buckets=-3)),
     _encoded(Hashed(column="a", buckets=4097)), _encoded(Words(column="a", words=("w",) * 65_537)),
     _encoded(Log(column="a", scale=0.0)), _encoded(Log(column="a", scale=-1.0)),
     _encoded(Log(column="a", scale=1e-10)),
     _encoded(Log(column="a", shift=1.1e6)), _encoded(Distance(column="a", shift=0.0, scale=0.0)),
     _encoded(Distance(column="a", shift=-1.1e6, scale=1.0)),
     _encoded(Log(column="a")).replace(b'"shift":0.0', b'"shift":1e999')],
)  # fmt: skip
def test_encodings_that_nobody_could_follow_are_refused_where_they_are_read(text: bytes) -> None:
    with pytest.raises(StateError, match=messages.ENCODING_DAMAGED):
        from_json(text)


def _in_areas(*centres: object, side: str = "person") -> bytes:
    return msgspec.json.encode({"version": 1, side: [{"type": "area", "column": "a", "centres": centres}]})


@pytest.mark.parametrize(
    "text",
    [_in_areas(), _in_areas((90.1, 0.0)), _in_areas((-90.1, 0.0)), _in_areas((0.0, 180.1)), _in_areas((0.0, -180.1)),
     _in_areas((float("nan"), 0.0)), _in_areas((0.0, None)), _in_areas((0.0,)), _in_areas((0.0, 0.0, 0.0)),
     _in_areas((0.0, "0")), _in_areas(0.0, 0.0), _in_areas(*[(0.0, 0.0)] * 257),
     _in_areas((0.5, 0.0)).replace(b"0.5", b"1e999"), _in_areas((0.5, 0.0)).replace(b"0.5", b"NaN"),
     *(_in_areas((0.0, 0.0), side=side) for side in ("place", "popularity", "context"))],
)  # fmt: skip
def test_areas_that_are_nowhere_too_many_or_not_of_a_person_are_refused_where_they_are_read(text: bytes) -> None:
    with pytest.raises(StateError, match=messages.ENCODING_DAMAGED):
        from_json(text)


def test_areas_at_their_limits_are_read_and_encode_any_home() -> None:
    corners = [(90.0, 180.0), (-90.0, -180.0), *[(0.0, 0.0)] * 254]
    (block,) = from_json(_in_areas(*corners)).person
    assert isinstance(block, Area)
    assert block.width == len(block.names()) == 256
    home = np.array([[90.0, 12.0], [-90.0, 0.0], [0.0, 1.0], [np.nan, np.nan]])
    rows, areas = np.nonzero(block.encode_home(home))
    assert (rows.tolist(), areas.tolist()) == ([0, 1, 2], [0, 1, 2])


def test_encodings_at_their_limits_are_read() -> None:
    blocks = (Hashed(column="a", buckets=4096), Words(column="b", words=("w",) * 65_536), Clock(column="time"),
              Log(column="c", shift=-1e6, scale=1e-9), Distance(column="d", shift=1e6, scale=1e6))  # fmt: skip
    encoding = from_json(_encoded(*blocks))
    assert encoding.context == blocks
    assert [block.width for block in blocks] == [len(block.names()) for block in blocks]


def _refuse(*, ratio: int = 1, encoding: Encoding = ENCODING, places: int = 40, campaign: int = 1) -> None:
    refuse_oversized(change(SMALL_PRIVATE, data={"ratio": ratio}), encoding, places=places, campaign=campaign)


MOST_PLACES = (MOST_OCTETS - 2**16) // 8
WIDE = Encoding(place=tuple(Hashed(column=f"c{at}", buckets=4096) for at in range(16)))


def _averaging(many: int) -> Encoding:
    return Encoding(version=2, averages=tuple(Range(column=f"n{at}", low=0.0, high=1.0) for at in range(many)))


ONE_MORE = (Distance(column="one more", shift=0.0, scale=1.0),)


def _crossed(people: int, places: int) -> Encoding:
    """So many columns of a person, and of a place."""
    of = Encoding(person=(Hashed(column="p", buckets=people),), place=(Hashed(column="w", buckets=places),))
    return msgspec.structs.replace(of, context=(Clock(column="time"),))


def _shared(people: int, places: int) -> int:
    """The numbers of B: 1, the place, the clock with five columns, and all products that there may be."""
    return (1 + people) * (1 + places + 5 + 78 + 5 * 64)


@pytest.mark.parametrize(
    ("fine", "wrong"),
    [
        ({"campaign": MOST_CAMPAIGNS - 1}, {"campaign": MOST_CAMPAIGNS}),
        ({"places": MOST_PLACES}, {"places": MOST_PLACES + 1}),
        ({"ratio": 20}, {"ratio": 21}),
        ({"encoding": WIDE}, {"encoding": msgspec.structs.replace(WIDE, context=ONE_MORE)}),
        ({"encoding": _crossed(1023, 620)}, {"encoding": _crossed(1023, 621)}),
        ({"encoding": _crossed(1000, 643)}, {"encoding": _crossed(1023, 643)}),
        ({"encoding": _averaging(MOST_AVERAGES)}, {"encoding": _averaging(MOST_AVERAGES + 1)}),
        (
            {"encoding": _averaging(1), "places": MOST_PLACES // 2},
            {"encoding": _averaging(1), "places": MOST_PLACES // 2 + 1},
        ),
    ],
)
def test_a_campaign_that_no_device_could_hold_is_refused(fine: dict[str, Any], wrong: dict[str, Any]) -> None:
    _refuse(**fine)
    with pytest.raises(PolicyError, match=messages.CAMPAIGN_TOO_LARGE):
        _refuse(**wrong)


def test_a_shared_model_that_is_too_large_is_refused_before_it_is_made() -> None:
    assert _shared(1023, 620) == MOST_SHARED == 2**20
    with pytest.raises(PolicyError, match=messages.joined(messages.CAMPAIGN_TOO_LARGE, messages.MODEL_TOO_LARGE)):
        _refuse(encoding=Encoding(person=WIDE.place))
    assert MOST_SHARED * 8 <= MOST_OCTETS - 2**16  # so a gradient of it fits into a message


def test_the_columns_of_a_campaign_bound_the_records_that_a_device_learns_from() -> None:
    """By what is public: neither time nor memory may tell how many it has."""
    assert most_records(1) == most_records(MOST_CELLS // MOST_RECORDS) == MOST_RECORDS
    assert most_records(65_536) * 65_536 == MOST_CELLS


def test_the_service_takes_whatever_a_sound_campaign_asks_for() -> None:
    of = Round(bytes(16), "popularity", 1)
    vector = Masked(VERSION, of, bytes(32), bytes(32), bytes(8 * MOST_PLACES + 1024), bytes(64))
    assert len(encode(Mail((encode(vector),), 0, 0))) <= Limits().mail


def test_a_million_wide_blocks_are_refused_without_naming_their_features() -> None:
    block = Hashed(column="a", buckets=4096)
    with pytest.raises(PolicyError, match=messages.joined(messages.CAMPAIGN_TOO_LARGE, messages.TOO_MANY_FEATURES)):
        _refuse(encoding=Encoding(person=(block,) * 1_000_000))


def test_repeated_column_names_are_found_in_one_pass() -> None:
    class Counted(str):
        """A column name that counts how often it is compared with another: in one pass over a hash table, hardly."""

        __slots__ = ()
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

    columns = [Counted(f"c{at}") for at in range(2000)]
    names = Encoding(person=tuple(map(_log, columns)), place=(_log(Counted("c0")),)).names()
    assert Counted.compared < 20_000  # each column looked for among all others: two million
    assert (names[0], names[1], names[-1]) == ("c0 (person)", "c1", "c0 (place)")


def _log(column: str) -> Log:
    return Log(column=column)
