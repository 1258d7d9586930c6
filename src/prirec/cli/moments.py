"""Where and when, from flags. What was given is not repeated in an error: it says where someone is."""

import re
from math import nan

from prirec.errors import UsageError

_POINT = re.compile(r"\s*([+-]?[0-9.]+)\s*,\s*([+-]?[0-9.]+)\s*")


def point_of(text: str, *, flag: str) -> tuple[float, float]:
    """Latitude and longitude in degrees."""
    found = _POINT.fullmatch(text)
    try:
        lat, lon = (float(part) for part in found.groups()) if found else (nan, nan)
    except ValueError:
        lat, lon = nan, nan
    if not (abs(lat) <= 90 and abs(lon) <= 180):
        raise UsageError(f"{flag} takes a latitude and a longitude in degrees, such as {flag} 35.68,139.76")
    return lat, lon


def wall_clock_of(text: str, *, flag: str) -> int:
    """Seconds since 1970 on the local wall clock: an offset from UTC is dropped, as it is from visits."""
    from datetime import UTC, datetime

    try:
        told = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{flag} takes a date and a local time, such as {flag} 2024-05-04T19:30") from None
    return int(told.replace(tzinfo=UTC).timestamp())


def now() -> int:
    """By the local wall clock, as visits are told."""
    from datetime import UTC, datetime

    return int(datetime.now().astimezone().replace(tzinfo=UTC).timestamp())
