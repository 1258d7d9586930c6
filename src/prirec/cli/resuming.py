"""Unfinished training: what a checkpoint holds, whether it may be thrown away, and what to say when stopped by hand."""

from pathlib import Path

from prirec.cli.output import note
from prirec.cluster.keeping import begun, discard, is_checkpoint_folder, read_manifest
from prirec.engines.checkpoint import identity, is_checkpoint, load
from prirec.engines.training import hold_out
from prirec.errors import StateError, UsageError
from prirec.evaluate.experiment import Setup


def iterations_kept(setup: Setup, checkpoint: Path, *, resume: bool) -> int:
    """How many iterations are done already; 0 where there is no checkpoint, or it is not wanted."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if not begun(checkpoint):
        return 0
    if not resume:
        _discard(checkpoint)
        return 0
    kept, asked = _kept(setup, checkpoint), setup.settings.iterations
    if kept > asked:
        raise UsageError(
            f"the checkpoint {checkpoint} holds {kept} iterations, more than the {asked} asked for; "
            "ask for more iterations, or start over with --no-resume"
        )
    note(f"resuming after iteration {kept} of {asked}, from {checkpoint}")
    return kept


def kept_on_cluster(checkpoint: Path, *, resume: bool) -> int:
    """The same for data that nobody holds; whose a checkpoint is the cluster looks at."""
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    if not begun(checkpoint):
        return 0
    if not resume:
        _discard(checkpoint)
        return 0
    kept = read_manifest(checkpoint).iteration
    note(f"resuming after iteration {kept}, from {checkpoint}")
    return kept


def _kept(setup: Setup, checkpoint: Path) -> int:
    seen, _ = hold_out(setup.samples, setup.settings)
    if checkpoint.is_dir():
        return read_manifest(checkpoint).iteration  # whose it is the cluster looks at
    try:
        return load(checkpoint, identity(seen, setup.settings)).state.iteration
    except StateError as refusal:
        starts_over = "; --no-resume starts over" if is_checkpoint(checkpoint) else ""
        raise StateError(f"{refusal}{starts_over}") from None


def _discard(path: Path) -> None:
    """Only what is a checkpoint is removed: a slip of the hand in --checkpoint costs no file."""
    if not _is_checkpoint(path):
        raise UsageError(f"{path} is no checkpoint that could be started over from; remove it or name another")
    drop_checkpoint(path)


def drop_checkpoint(path: Path) -> None:
    """A file, or on a cluster a folder, of a run that is saved or started over."""
    if path.is_dir():
        discard(path)
    else:
        path.unlink(missing_ok=True)


def _is_checkpoint(path: Path) -> bool:
    return is_checkpoint_folder(path) if path.is_dir() else is_checkpoint(path)


def tell_stopped(checkpoint: Path, kept: int, *, iterations: int) -> None:
    """After Ctrl-C: what is kept, and how to go on."""
    if not begun(checkpoint):
        note("stopped before the first checkpoint; nothing was saved yet")
        return
    work = f"the work after iteration {kept} of {iterations}" if kept else "what was done before"
    note(f"stopped; {work} is kept in {checkpoint}; run the same command again to go on")
