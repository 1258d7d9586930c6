"""--engine cluster: a connection to Ray for as long as something is trained, and flags that belong to it alone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from prirec.engines.training import Trained
from prirec.errors import UsageError
from prirec.settings import Settings

if TYPE_CHECKING:
    from prirec.cluster.apart import Expedition


def refuse_off_cluster(
    engine: str, *, address: str | None, actors: int | None = None, threads: int | None = None
) -> None:  # fmt: skip
    """A flag that would change nothing is a mistake."""
    if engine == "cluster" and threads is not None:
        raise UsageError("--threads belongs to one machine; on a cluster give --actors")
    given = [name for name, value in (("--address", address), ("--actors", actors)) if value is not None]
    if given and engine != "cluster":
        raise UsageError(f"{given[0]} belongs to --engine cluster")


def refuse_unready(settings: Settings, *, address: str | None) -> None:
    """Before any data are read: settings that a cluster does not carry, Ray that is missing, a head out of reach."""
    from prirec.cluster.connecting import library, refuse_unreachable
    from prirec.cluster.training import refuse_unfit

    refuse_unfit(settings)
    library()
    if address is not None:
        refuse_unreachable(address)


@contextmanager
def on_cluster(*, address: str | None, actors: int | None) -> Iterator[Callable[..., Trained]]:
    """Trains as engines.training.train does, to the same bits."""
    from prirec.cluster.connecting import connected, processors
    from prirec.cluster.gathered import train

    with connected(address, cpus=actors):
        yield partial(train, actors=actors if actors is not None else processors())


@contextmanager
def reached(engine: str, address: str | None) -> Iterator[None]:
    """A connection for tasks; none where all is done on this machine."""
    if engine != "cluster":
        yield
        return
    from prirec.cluster.connecting import connected

    with connected(address):
        yield


@contextmanager
def expedition(folder: Path, settings: Settings, *, address: str | None, actors: int | None) -> Iterator["Expedition"]:
    """A partitioned city in the actors of a cluster."""
    from prirec.cli.progress import busy
    from prirec.cluster.apart import opened
    from prirec.cluster.connecting import connected, processors

    with connected(address, cpus=actors), ExitStack() as stack:
        with busy("shards are reading the data"):
            shards = actors if actors is not None else processors()
            away = stack.enter_context(opened(folder, settings, actors=shards))
        yield away
