"""A conductor at work: for as long as the lease is held, it looks at the store whenever something may have come."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any, Final

from prirec.errors import PrirecError, StateError
from prirec.protocols.journal import ConflictError
from prirec.recommender.conductor import Conductor, Told
from prirec.recommender.gathering import Pace
from prirec.recommender.lease import LEASE, Lease
from prirec.recommender.outbox import Wake
from prirec.recommender.store import LeaseLostError, OvertakenError, Store

HEARING: Final = 4  # threads, for as many sums at once
IDLE, BUSY = 0.5, 0.02  # seconds between two looks at the store, for what came to other workers
LONGEST = 10.0  # seconds until a store that was away is looked for again


def conduct(
    store: Store, stop: Event, *, came: Event, wake: Wake = lambda letters: None,
    failed: Callable[[], None] = lambda: None, pace: Pace | None = None,
    tell: Callable[[Told], None] = lambda told: None, lease: float = LEASE,
) -> None:  # fmt: skip
    """Conducts whenever it holds the lease, until it is told to stop; `came` is set when it is to look at once: after
    `stop`, or because messages were handed in here. `wake` tells those who wait of mail and news, and `failed` whoever
    counts that something could not be done."""
    conductor: Conductor | None = None
    pause, troubled = 0.0, False
    with Lease(store, seconds=lease) as word, ThreadPoolExecutor(HEARING, thread_name_prefix="hearing") as pool:
        while not (stop.wait(pause) if troubled else stopped(stop, came, pause)):
            moved = troubled = False
            try:
                held = word.held()
                conductor = (
                    conductor
                    or _taken_over(store, holder=word.holder, pace=pace, tell=tell, wake=wake, side_by_side=pool.map)
                    if held
                    else None
                )
                moved = conductor is not None and conductor.tick()
                pause = 0.0 if moved else BUSY if conductor is not None and conductor.gatherings else IDLE
            except PrirecError as problem:
                if not _passes(problem):
                    conductor = None
                    word.doubt()
                tell(Told("lost" if conductor is None else "waiting", problem=str(problem)))
                failed()
                troubled = True  # what comes meanwhile would only meet the same trouble
                pause = min(max(2 * pause, IDLE), LONGEST)
            if moved:
                wake(())


def stopped(stop: Event, came: Event, seconds: float) -> bool:
    """After as many seconds, or as soon as something came."""
    came.wait(seconds)
    came.clear()  # before looking: whoever sets both is not missed
    return stop.is_set()


def _taken_over(store: Store, **given: Any) -> Conductor:
    conductor = Conductor(store, **given)
    conductor.take_over()
    return conductor


def _passes(problem: PrirecError) -> bool:
    """A disk that is full or a database that is away comes back; a campaign that others have gone on with does not."""
    return isinstance(problem, StateError) and not isinstance(problem, LeaseLostError | OvertakenError | ConflictError)
