"""run.json, the card of a run folder: what it is, what made it, and what its files must hash to."""

import platform
from hashlib import blake2b
from pathlib import Path

import msgspec
import numba
import numpy as np

from prirec import __version__
from prirec.beside import EARLIER, left_beside
from prirec.damage import NOT_DECODED
from prirec.engines.durable import put_back
from prirec.errors import StateError

VERSION = 2


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """run.json: what this is, what made it, and what its files must hash to."""

    version: int
    source: str
    rows: str
    made_with: dict[str, str]
    files: dict[str, str]
    seal: str = ""  # the hash of all the above

    def sealed(self) -> str:
        return hash_of(msgspec.json.encode(msgspec.structs.replace(self, seal="")))


def settle(path: Path) -> None:
    """Before a run is written: one that was being replaced when a process was killed is put back. StateError where
    that cannot be, so that it is not lost behind a new one."""
    put_back(path)
    if told := _earlier(path):
        raise StateError(f"there is no run in {path}{told}, or name another folder")


def read_card(path: Path) -> Card:
    """StateError if there is none, or it is damaged or of another version."""
    try:
        text = (path / "run.json").read_bytes()
        version = msgspec.json.decode(text, type=dict[str, object]).get("version")
        if version != VERSION:
            raise StateError(f"the run in {path} has version {version}, this program reads version {VERSION}")
        card = msgspec.json.decode(text, type=Card)
        if card.sealed() != card.seal:
            raise StateError(f"run.json in {path} is damaged")
        return card
    except OSError:
        raise StateError(f"there is no run in {path} (no run.json){_earlier(path)}") from None
    except NOT_DECODED:
        raise StateError(f"run.json in {path} is damaged") from None


def _earlier(path: Path) -> str:
    """Where it is if it was being replaced, elsewhere or by somebody who was killed."""
    names = [] if path.exists() else sorted(left.name for left in left_beside(path, EARLIER))
    return f"; it was being replaced, and is in {' or '.join(names)} beside it: rename that back" if names else ""


def checked(file: Path, card: Card) -> bytes:
    """What is in a file of the folder; StateError if it is not what the card says."""
    try:
        data = file.read_bytes()
    except OSError:
        raise StateError(f"the run in {file.parent} has lost its {file.name}") from None
    if hash_of(data) != card.files.get(file.name):
        raise StateError(f"{file.name} in {file.parent} is damaged: it is not what was saved")
    return data


def made_with() -> dict[str, str]:
    return {
        "prirec": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "machine": platform.machine(),
    }


def hash_of(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()
