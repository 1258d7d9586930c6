"""Shards that end in the middle of a round, once: by the kill signal, or by waiting until their node is taken down."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from prirec.cluster.worker import GivenPeople
from prirec.config import Settings
from prirec.engines.shards import Shard, ShardData, ShardSum
from prirec.engines.state import RoundsState

PATIENCE = 60.0


class _Doomed(Shard):
    def __init__(self, share: ShardData, settings: Settings, *, at: int, mark: Path, kill: bool):
        super().__init__(share, settings)
        self.at, self.mark, self.kill = at, mark, kill

    def gradient_sum(self, state: RoundsState) -> ShardSum:
        done = super().gradient_sum(state)  # and nobody will hear of it
        if state.iteration == self.at and not self.mark.exists():
            if self.mark.parent.exists():
                self.mark.touch()
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(PATIENCE)
        return done


class Doomed(GivenPeople):
    """A source: the shard that it makes ends in round `at`, unless one did before."""

    def __init__(self, share: ShardData, *, at: int, mark: Path, kill: bool):
        super().__init__(share)
        self.at, self.mark, self.kill = at, mark, kill

    def shard(self, settings: Settings, public: Any) -> Shard:
        return _Doomed(self.with_places(public), settings, at=self.at, mark=self.mark, kill=self.kill)
