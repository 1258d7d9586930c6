"""Checkpoints of a run over shards: one file for each shard, in the format of engines/state, and a manifest.

All are in one folder that every node reaches. The manifest names the iteration that counts. It is replaced in one move,
once all files of an iteration are there, so that a crash at any moment leaves the old checkpoint or the new one, whole.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from prirec.engines.state import Checkpoint, identity, is_checkpoint, load_checkpoint, save_checkpoint
from prirec.engines.train import Checkpointing, hold_out
from prirec.errors import StateError, UsageError
from prirec.simulate.setup import Setup
from prirec.util.decode_errors import NOT_DECODED
from prirec.util.files import replacing

VERSION = 1
MANIFEST = "manifest.json"
_CONDUCTOR = "conductor"
_NAMES = rf"({re.escape(MANIFEST)}|shard-\d+-\d+\.npz|{_CONDUCTOR}-\d+\.npz)"
_OWN = re.compile(rf"{_NAMES}|\.{_NAMES}\.([0-9a-f]{{8}}-)?\d+\.partial")


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = VERSION
    whose: str  # the identity of the run
    iteration: int
    shards: int


@dataclass(frozen=True, slots=True)
class CheckpointFolder:
    """The folder of one run, with so many shards."""

    folder: Path
    identity: str
    shards: int
    every: int = 5  # iterations from one checkpoint to the next

    @classmethod
    def of(cls, checkpointing: Checkpointing | None, identity: str, shards: int) -> Self | None:
        return None if checkpointing is None else cls(checkpointing.path, identity, shards, checkpointing.every)

    def files(self, iteration: int) -> list[tuple[str, str, str]]:
        """For each shard: the folder, the name of its file, and the identity in it."""
        folder = str(self.folder.resolve())
        return [(folder, name, self.label(at)) for at, name in enumerate(self.names(iteration))]

    def names(self, iteration: int) -> list[str]:
        return [f"shard-{at:05}-{iteration:07}.npz" for at in range(self.shards)]

    def label(self, at: int) -> str:
        """The identity in the file of a shard: of this run, and of this shard among so many."""
        return f"{self.identity} {at} of {self.shards}"

    def exists(self) -> bool:
        return (self.folder / MANIFEST).is_file()

    def commit(self, run: Checkpoint) -> None:
        """Make an iteration the one that counts, once shards have written their files, and remove older ones."""
        iteration = run.state.iteration
        missing = [name for name in self.names(iteration) if not (self.folder / name).is_file()]
        if missing:
            raise StateError(f"nodes have written checkpoints that are not in {self.folder}; name a folder they share")
        save_checkpoint(self.folder / self._conductor(iteration), run, self.identity)
        with replacing(self.folder / MANIFEST) as file:
            file.write(msgspec.json.encode(Manifest(whose=self.identity, iteration=iteration, shards=self.shards)))
        kept = {MANIFEST, self._conductor(iteration), *self.names(iteration)}
        for old in own_files(self.folder):
            if old.name not in kept:
                old.unlink(missing_ok=True)

    def read(self) -> Checkpoint:
        """V and the history; StateError if the checkpoint is of another run or of another number of shards."""
        manifest = read_manifest(self.folder)
        if manifest.whose != self.identity:
            raise StateError(f"the checkpoint {self.folder.name} is of another run (other settings or data)")
        if manifest.shards != self.shards:
            raise StateError(
                f"the checkpoint {self.folder.name} is of {manifest.shards} shards; ask for as many actors"
            )
        return load_checkpoint(self.folder / self._conductor(manifest.iteration), self.identity)

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
    """Files of checkpoints, finished or not; nothing else that may be in the folder."""
    return [file for file in folder.iterdir() if _OWN.fullmatch(file.name)]


def is_checkpoint_folder(folder: Path) -> bool:
    """Whether the folder holds nothing but files of a checkpoint, finished or not."""
    own = {file.name for file in own_files(folder)}
    if own != {file.name for file in folder.iterdir()}:
        return False
    if own == {MANIFEST}:  # others write a manifest.json too
        with suppress(StateError):
            return bool(read_manifest(folder))
        return False
    return True


def is_occupied(path: Path) -> bool:
    """Whether there is a checkpoint to resume, or something else that must not be overwritten."""
    return path.exists() and (not path.is_dir() or (path / MANIFEST).is_file() or not is_checkpoint_folder(path))


def discard(folder: Path) -> None:
    """Remove the files of a checkpoint, and the folder if nothing else is in it."""
    for file in own_files(folder):
        file.unlink(missing_ok=True)
    with suppress(OSError):  # something else is in it
        folder.rmdir()


# Checkpoints of either kind: a file of one machine, or a folder of a cluster


def resumed_iteration(path: Path, *, resume: bool = True, setup: Setup | None = None) -> int:
    """Iterations that a checkpoint holds; 0 where there is none. Without `resume` it is removed.

    Only what is a checkpoint is ever removed: a slip of the hand in a path costs no file. That it belongs to the run is
    checked here for a file, by `setup`; for a folder by the cluster, which knows the number of shards."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not is_occupied(path):
        return 0
    known = is_checkpoint_folder(path) if path.is_dir() else is_checkpoint(path)
    if not resume:
        if not known:
            raise UsageError(f"{path} is no checkpoint that could be started over from; remove it or name another")
        remove_checkpoint(path)
        return 0
    if path.is_dir() or setup is None:
        done = read_manifest(path).iteration
    else:
        seen, _ = hold_out(setup.samples, setup.settings)
        try:
            done = load_checkpoint(path, identity(seen, setup.settings)).state.iteration
        except StateError as refusal:
            raise StateError(f"{refusal}; without resume it starts over" if known else str(refusal)) from None
    if setup is not None and done > setup.settings.iterations:
        raise UsageError(
            f"the checkpoint {path} holds {done} iterations, more than the {setup.settings.iterations} asked for; ask "
            "for more iterations, or start over without resume"
        )
    return done


def remove_checkpoint(path: Path) -> None:
    """Remove the file, or what a checkpoint has in the folder."""
    if path.is_dir():
        discard(path)
    else:
        path.unlink(missing_ok=True)


def refuse_other_kind(path: Path, *, folder: bool) -> None:
    """UsageError for a file where the engine writes a folder, or a folder where it writes a file."""
    if folder and path.is_file():
        raise UsageError(f"the checkpoint {path} is a file, and on a cluster it is a folder; name another")
    if not folder and path.is_dir():
        raise UsageError(f"the checkpoint {path} is a folder; name a file")
