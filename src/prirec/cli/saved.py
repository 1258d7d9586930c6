"""A saved run and the data it was trained on, put together again."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from prirec.cli.output import notes
from prirec.cli.progress import busy
from prirec.data.folder import read_folder
from prirec.engines.run_folder import Run, load_run
from prirec.evaluate.experiment import Setup
from prirec.evaluate.saved_run import set_up_again, set_up_later


@dataclass(frozen=True, slots=True)
class Reopened:
    """The model and the city that it belongs to."""

    run: Run = field(repr=False)
    setup: Setup = field(repr=False)


def reopen(run: Path, data: Path) -> Reopened:
    """To test a run: StateError if it is damaged or the data are others; the data's notes go to stderr."""
    saved = load_run(run)
    with busy("reading the data"):
        loaded = read_folder(data)
        setup = set_up_again(loaded.dataset, saved)
    notes(loaded.notes)
    return Reopened(saved, setup)


def reopen_later(run: Path, data: Path) -> Reopened:
    """To recommend from a run: the data may have grown since it was trained."""
    saved = load_run(run)
    with busy("reading the data"):
        loaded = read_folder(data)
        setup, models = set_up_later(loaded.dataset, saved)
    notes(loaded.notes)
    return Reopened(replace(saved, linear=models.linear, latent=models.latent, people=setup.samples.keys), setup)
