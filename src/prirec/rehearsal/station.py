"""The recommender as a process: founded, given a catalogue and a certificate, started, killed and started again."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from prirec.config import Settings
from prirec.errors import StateError
from prirec.features.encoding import plan as encoding_of
from prirec.features.popularity import Popularity
from prirec.recommender import tls
from prirec.recommender.conductor import Pace
from prirec.recommender.operator import found, publish
from prirec.recommender.release import Source
from prirec.recommender.store import Store
from prirec.rehearsal.children import Child
from prirec.rehearsal.stage import SERVER, Stage
from prirec.rehearsal.town import Town
from prirec.sharing.keys import SigningKey

HOST = "127.0.0.1"
LOG = "recommender.log"
PATIENCE = 60.0  # seconds to start in


class Station:
    """One recommender on one address. `start` makes a process; a store outlives any of them."""

    def __init__(self, stage: Stage, *, store: str, workers: int, pace: Pace) -> None:
        self.folder, self.url, self.workers, self.pace = stage.recommender, store, workers, pace
        self.store = Store.open(store)
        self._start, self._log = stage.start, stage.folder / LOG
        self.child: Child | None = None
        self.port = 0  # whichever is free
        self.authority = b""
        self.fingerprint = ""

    def found(self, town: Town, settings: Settings) -> None:
        """Keys, a development authority that signs for this machine, and a catalogue."""
        founding = found(self.store, title="a city on one machine")
        self.fingerprint = SigningKey(founding.identity).public.hex()
        now = datetime.now(UTC)
        authority = tls.new_authority("a city on one machine", now=now)
        tls.server_certificate(authority, hosts=(HOST, "localhost"), now=now).write(self._certificate, self._key)
        self.authority = authority.certificate
        encoding = encoding_of(town.dataset, Popularity(), settings.features)
        publish(self.store, Source(town.dataset.places, encoding))

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.port}"

    def start(self) -> None:
        """Returns when it listens; the first time on any free port, then on the same."""
        before = self._log.stat().st_size if self._log.exists() else 0
        task = {
            "store": self.url, "certificate": str(self._certificate), "key": str(self._key), "port": self.port,
            "workers": self.workers, "coming": self.pace.coming, "step": self.pace.step,
        }  # fmt: skip
        self.child = self._start(SERVER, task, log=LOG)
        until = time.monotonic() + PATIENCE
        while (port := self._told(before)) is None:
            if not self.child.alive or time.monotonic() > until:
                raise StateError(f"the recommender's process did not start; with --out, {LOG} says why")
            time.sleep(0.02)
        self.port = port

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()

    def check(self) -> None:
        """StateError if its process ended and nobody killed it."""
        if self.child is not None and not self.child.alive:
            raise StateError(f"the recommender's process ended by itself; with --out, {LOG} says why")

    def _told(self, after: int) -> int | None:
        """The port that it says it serves on, in what it has logged since."""
        with self._log.open("rb") as log:
            log.seek(after)
            for line in log:
                if line.endswith(b"\n") and b'"serving"' in line:
                    return int(json.loads(line)["port"])
        return None

    @property
    def _certificate(self) -> Path:
        return self.folder / "certificate.pem"

    @property
    def _key(self) -> Path:
        return self.folder / "key.pem"
