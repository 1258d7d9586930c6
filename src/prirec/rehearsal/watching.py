"""What a rehearsal sees of a campaign: the recommender's own account, which holds opened sums and public things only,
and the devices' traffic."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prirec.metrics import Quality
from prirec.recommender.campaign import Progress
from prirec.rehearsal.crew import NONE, Traffic

OVER = ("over", "failed")


@dataclass(frozen=True, slots=True)
class Row:
    """One sum, or the sums of all cohorts: under way while `opened` is None."""

    kind: str  # visits, mixing or learning
    round: int  # counted from 1; visits are before all
    seconds: float
    traffic: Traffic
    opened: int | None = None
    gathered: int = 0
    survivors: int = 0
    rostered: int = 0
    burnt: bool = False  # given up by whoever took over from a recommender that died, or because nobody came
    quality: Quality | None = None

    @property
    def lost(self) -> int:
        return max(self.rostered - self.survivors, 0)

    def as_dict(self) -> dict[str, Any]:
        kept = ("kind", "round", "opened", "gathered", "survivors", "rostered", "burnt")
        return {name: getattr(self, name) for name in kept} | {
            "seconds": round(self.seconds, 3),
            "bytes_sent": self.traffic.sent,
            "bytes_received": self.traffic.received,
            "requests": self.traffic.requests,
            "log_loss": None if self.quality is None else self.quality.log_loss,
            "auc": None if self.quality is None else self.quality.auc,
        }


@dataclass(slots=True)
class Watch:
    """Fed with progress as it is at a moment; it keeps a row for each sum."""

    since: float
    rows: list[Row] = field(default_factory=list)
    _key: tuple[str, int, int] | None = None  # of the sum under way
    _past: int = 0
    _carried: Traffic = NONE

    def look(self, progress: Progress, traffic: Traffic, *, now: float) -> bool:
        """Whether another sum has begun since, or the campaign is over."""
        key = (progress.phase, progress.iteration, progress.attempt)
        moved = key != self._key
        if moved and self._key is not None:
            self._close(progress, traffic, now=now)
        if moved:
            self._key, self.since, self._carried = key, now, traffic
        return moved

    def under_way(self, traffic: Traffic, *, now: float) -> Row | None:
        if self._key is None or self._key[0] in OVER:
            return None
        return self._row(traffic, now=now)

    def measured(self, quality: Quality) -> None:
        """The model after the last sum."""
        self.rows[-1] = replace(self.rows[-1], quality=quality)

    def _close(self, progress: Progress, traffic: Traffic, *, now: float) -> None:
        """A row for each line that is new in the account; a sum with nobody in it was burnt."""
        row, lines = self._row(traffic, now=now), progress.past[self._past :]
        self._past = len(progress.past)
        for line in lines:
            self.rows.append(
                replace(
                    row, kind=line.kind, round=_round(line.kind, line.iteration), opened=line.opened,
                    gathered=line.gathered, survivors=line.survivors, rostered=line.rostered, burnt=line.rostered == 0,
                )
            )  # fmt: skip

    def _row(self, traffic: Traffic, *, now: float) -> Row:
        kind, iteration, _ = self._key or ("", 0, 0)
        return Row(kind, _round(kind, iteration), now - self.since, traffic - self._carried)


def _round(kind: str, iteration: int) -> int:
    return 0 if kind == "visits" else iteration + 1


def rounds_opened(rows: Sequence[Row]) -> int:
    """Rounds in which V moved."""
    return sum(row.kind == "learning" and bool(row.opened) for row in rows)
