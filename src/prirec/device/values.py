"""Values that describe a person or a visit: numbers, words and lists of words; their validation and their JSON.

Errors name a column and never what is in it, since messages end up in logs.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from prirec.data.folder import EARLIEST, LATEST
from prirec.device.database import DAMAGED
from prirec.errors import DataError, StateError, UsageError
from prirec.features.encoding import Value
from prirec.util.decode_errors import NOT_DECODED

Given: TypeAlias = float | str | Sequence[str]  # what callers may pass; `Value` is what is stored
Decoded = TypeVar("Decoded")

MOST_VALUES, MOST_WORDS = 1000, 1000  # far above any encoding: a bug in an app must not fill the file
_LONGEST = 500  # characters of a name or a word

_values: msgspec.json.Decoder[Value] = msgspec.json.Decoder(Value)
_contexts: msgspec.json.Decoder[dict[str, Value]] = msgspec.json.Decoder(dict[str, Value])


def checked_name(name: object, *, what: str, reserved: Sequence[str] = ()) -> str:
    """The name of a column, or an id. UsageError, without the name, for one that is empty, too long or reserved."""
    if not isinstance(name, str) or not _is_text(name):
        raise UsageError(f"{what} is 1 to {_LONGEST} characters of text, not blank")
    if name in reserved:
        raise UsageError(f"{what} is none of {', '.join(reserved)}: these have a meaning of their own")
    return name


def checked_value(value: Any, *, column: str) -> Value:
    """A finite number, a word, or a list of words without repetitions."""
    if isinstance(value, str):
        return _checked_word(value, column)
    if isinstance(value, int | float):
        return _checked_number(value, column)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        if len(value) > MOST_WORDS:
            raise DataError(f"a list has at most {MOST_WORDS} words", column=column)
        return tuple(dict.fromkeys(_checked_word(word, column) for word in value))
    raise DataError("give a number, a word or a list of words", column=column)


def checked_values(values: Mapping[str, Any], *, what: str, reserved: Sequence[str]) -> dict[str, Value]:
    if not isinstance(values, Mapping) or len(values) > MOST_VALUES:
        raise UsageError(f"there are at most {MOST_VALUES} values, each with its name")
    names = [checked_name(name, what=what, reserved=reserved) for name in values]
    return {name: checked_value(values[name], column=name) for name in names}


def checked_time(time: object) -> int | None:
    """Seconds since 1970 on the local wall clock, or None."""
    if time is None:
        return None
    if not isinstance(time, int) or isinstance(time, bool) or not EARLIEST <= time <= LATEST:
        raise DataError("a time is whole seconds since 1970, within the years 1 to 9999", column="time")
    return time


def checked_point(lat: object, lon: object) -> tuple[float, float]:
    """Latitude and longitude in degrees."""
    for value, most, column in ((lat, 90, "lat"), (lon, 180, "lon")):
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= most:
            raise DataError(f"give degrees from -{most} to {most}, latitude first, then longitude", column=column)
    return float(lat), float(lon)  # type: ignore[arg-type]  # checked in the loop


def to_json(value: Value | Mapping[str, Value]) -> bytes:
    return msgspec.json.encode(value)


def value_from(data: bytes) -> Value:
    return _decoded(_values, data)


def context_from(data: bytes) -> dict[str, Value]:
    return _decoded(_contexts, data)


def _decoded(decoder: msgspec.json.Decoder[Decoded], data: bytes) -> Decoded:
    try:
        return decoder.decode(data)
    except NOT_DECODED:  # its text may quote the value
        raise StateError(f"the device's file {DAMAGED}") from None


def _checked_word(word: object, column: str) -> str:
    if not isinstance(word, str) or not _is_text(word):
        raise DataError(f"a word is 1 to {_LONGEST} characters of text, not blank", column=column)
    return word


def _checked_number(value: float, column: str) -> float:
    if not abs(value) <= sys.float_info.max:  # false for NaN as well; a whole number may be beyond all floats
        raise DataError("a number must be finite; leave out what is not known", column=column)
    return float(value)


def _is_text(text: str) -> bool:
    """Unicode that can be encoded: half a surrogate pair would end in an error of UTF-8 that quotes the whole text."""
    return 0 < len(text) <= _LONGEST and bool(text.strip()) and not any("\ud800" <= one <= "\udfff" for one in text)
