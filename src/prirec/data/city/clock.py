"""When people look: the rhythm of the day and of the week."""

import numpy as np

from prirec.types import BoolArray, IndexArray, TimeArray

FIRST_DAY = 1_704_067_200  # Monday, 1 January 2024, 00:00
DAY = 86_400
_HOURS = np.array([2, 1, 1, 1, 1, 1, 2, 4, 6, 5, 5, 8, 12, 9, 6, 6, 7, 10, 14, 15, 13, 10, 7, 4], dtype=np.float64)
_WEEKDAYS = np.array([8, 8, 8, 9, 12, 16, 14], dtype=np.float64)  # from Monday
_ROOM = np.int64(2**32)  # a person's times fit below this
MOST_DAYS = int(_ROOM) // DAY  # 136 years


def slate_times(person: IndexArray, *, days: int, rng: np.random.Generator) -> TimeArray:
    """A moment for each slate; person must be sorted, and each person's moments come out rising, none twice."""
    S = len(person)
    weekday = _WEEKDAYS[np.arange(days) % 7]
    day = rng.choice(days, size=S, p=weekday / weekday.sum())
    hour = rng.choice(24, size=S, p=_HOURS / _HOURS.sum())
    key = person * _ROOM + day * DAY + hour * 3600 + rng.integers(3600, size=S)
    key.sort()
    while len(ties := np.flatnonzero(key[1:] == key[:-1])):
        key[ties + 1] += 1
        key.sort()
    return np.asarray(key % _ROOM + FIRST_DAY, dtype=np.int64)


def evening(time: TimeArray) -> BoolArray:
    """From six o'clock to two in the morning."""
    hour = time % DAY // 3600
    return np.asarray((hour >= 18) | (hour < 2))


def weekend(time: TimeArray) -> BoolArray:
    """Saturday and Sunday."""
    return np.asarray((time - FIRST_DAY) // DAY % 7 >= 5)
