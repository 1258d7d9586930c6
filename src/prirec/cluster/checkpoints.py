"""Checkpoints of a run over shards: a file a shard, in the format of engines/local, and a manifest that makes them one.

All are in one folder that every node reaches. The manifest is replaced in one move once all files of an iteration are
there, so that a crash at any moment leaves the one checkpoint or the other, whole.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from prirec.engines.checkpoint import Checkpoint, load, save
from prirec.errors import StateError
from prirec.util.decode_errors import NOT_DECODED
from prirec.util.files import replacing

VERSION = 1
MANIFEST = "manifest.json"
_CONDUCTOR = "conductor"
_NAMES = rf"({re.escape(MANIFEST)}|shard-\d+-\d+\.npz|{_CONDUCTOR}-\d+\.npz)"
_OWN = re.compile(rf"{_NAMES}|\.{_NAMES}\.([0-9a-f]{{8}}-)?\d+\.partial")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = VERSION
    whose: str
    iteration: int
    shards: int


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """The folder, for a run with so many shards."""

    folder: Path
    whose: str
    shards: int

    def names(self, iteration: int) -> list[str]:
        return [f"shard-{at:05}-{iteration:07}.npz" for at in range(self.shards)]

    def label(self, at: int) -> str:
        """What the file of a shard must agree with."""
        return f"{self.whose} {at} of {self.shards}"

    def there(self) -> bool:
        return (self.folder / MANIFEST).is_file()

    def commit(self, run: Checkpoint) -> None:
        """Once the shards have written their files of this iteration."""
        iteration = run.state.iteration
        missing = [name for name in self.names(iteration) if not (self.folder / name).is_file()]
        if missing:
            raise StateError(f"nodes have written checkpoints that are not in {self.folder}; name a folder they share")
        save(self.folder / self._conductor(iteration), run, self.whose)
        with replacing(self.folder / MANIFEST) as file:
            file.write(msgspec.json.encode(Manifest(whose=self.whose, iteration=iteration, shards=self.shards)))
        kept = {MANIFEST, self._conductor(iteration), *self.names(iteration)}
        for old in own_files(self.folder):
            if old.name not in kept:
                old.unlink(missing_ok=True)

    def conductor(self) -> Checkpoint:
        """V and the history of the last checkpoint; StateError if it is of another run or cut otherwise."""
        manifest = read_manifest(self.folder)
        if manifest.whose != self.whose:
            raise StateError(f"the checkpoint {self.folder.name} is of another run (other settings or data)")
        if manifest.shards != self.shards:
            raise StateError(
                f"the checkpoint {self.folder.name} is of {manifest.shards} shards; ask for as many actors"
            )
        return load(self.folder / self._conductor(manifest.iteration), self.whose)

    def _conductor(self, iteration: int) -> str:
        return f"{_CONDUCTOR}-{iteration:07}.npz"


def read_manifest(folder: Path) -> Manifest:
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, *NOT_DECODED):
        raise StateError(f"the checkpoint {folder.name} is damaged; remove it to start over") from None
    if manifest.version != VERSION:
        raise StateError(f"the checkpoint {folder.name} has version {manifest.version}, this program reads {VERSION}")
    return manifest


def own_files(folder: Path) -> list[Path]:
    """What shards and their conductor have written, whole or not; nothing of anybody else's."""
    return [file for file in folder.iterdir() if _OWN.fullmatch(file.name)]


def is_checkpoint_folder(folder: Path) -> bool:
    """Whether there is nothing here but a checkpoint, or what one that was never finished has left."""
    own = {file.name for file in own_files(folder)}
    if own != {file.name for file in folder.iterdir()}:
        return False
    return own != {MANIFEST} or _readable(folder)


def begun(path: Path) -> bool:
    """Whether there is something to go on from, or to refuse: a file, a folder with a manifest, or one of somebody
    else's."""
    return path.exists() and (not path.is_dir() or (path / MANIFEST).is_file() or not is_checkpoint_folder(path))


def _readable(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except StateError:
        return False
    return True


def discard(folder: Path) -> None:
    """Only what is a checkpoint is removed."""
    for file in own_files(folder):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # something else is in it
        folder.rmdir()
