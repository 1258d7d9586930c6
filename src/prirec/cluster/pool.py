"""Everything that speaks to Ray: a session, a pool of actors with one shard each, and independent tasks.

Arguments of a call go once to each node, through its object store; sums come back by a tree of tasks. No message is for
a single device.
"""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from time import sleep
from typing import Any, TypeVar

from prirec.cluster.worker import ShardSource, Worker, array_bytes, versions
from prirec.config import Settings
from prirec.engines.shards import added
from prirec.errors import PrirecError, StateError, UsageError

PATIENCE = 5.0  # seconds
# Ray puts the machine's own address in the place of 127.0.0.1; on Linux all of 127.0.0.0/8 stays on the machine
LOOPBACK = "127.0.0.2" if sys.platform == "linux" else None
QUIET = {"logging_level": "ERROR", "log_to_driver": False}


def import_ray() -> Any:
    """The module `ray`, with its usage statistics switched off, which must be done before it is imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of a change in its next version
    try:
        import ray
    except ModuleNotFoundError:
        raise UsageError("a cluster needs Ray; install it with: pip install 'prirec[cluster]'") from None
    return ray


@contextmanager
def ray_session(address: str | None = None, *, cpus: int | None = None) -> Iterator[None]:
    """Connect to the cluster at this address, or start one on this machine that ends with the session.

    A connection that is open already is used, and left open."""
    ray = import_ray()
    if address is not None:
        refuse_unreachable(address)
    if ray.is_initialized():
        yield
        return
    local = {"num_cpus": cpus, "include_dashboard": False, "_node_ip_address": LOOPBACK} if address is None else {}
    try:
        session = ray.init(address=address or "local", **local, **QUIET)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise StateError(f"no Ray cluster could be reached: {_first_line(error)}") from None
    with _guarded(session.address_info["session_dir"]) if local else nullcontext():
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def _guarded(folder: str) -> Iterator[None]:
    """A process that ends what is left of a session of this machine when this process is gone, however it ended."""
    if sys.platform != "linux":
        yield
        return
    command = [sys.executable, "-m", "prirec.cluster.session_guard", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True):  # noqa: S603  this program itself
        yield


def cluster_cpus() -> int:
    """CPUs of all nodes together."""
    return max(1, int(import_ray().cluster_resources().get("CPU", 1)))


def refuse_unreachable(address: str) -> None:
    """StateError at once where nothing listens; Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError("the address is the HOST:PORT of a cluster's head, as `ray start --head` tells it")
    try:
        socket.create_connection((host, int(port)), timeout=PATIENCE).close()
    except OSError as error:
        why = error.strerror or "no answer"
        raise StateError(f"no Ray cluster answers at {address} ({why}); is its head running?") from None


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# Shards in actors


FAN_IN = 16  # answers that are added up by one task
PLACED = 30.0  # seconds until an actor should have a process; doubled with each attempt
ATTEMPTS, PAUSE = 30, 1.0  # Ray notices a dead node after seconds, and until then may place actors on it


class ActorLostError(StateError):
    """An actor or its node is gone: `mend` the pool, and ask again."""


class ActorPool:
    """One actor for each shard: the `ShardPool` of engines/shards.py, over a network.

    `source(at)` makes the data of shard `at`, again whenever its actor is replaced. `public` is the same for all
    shards, and goes once to each node."""

    def __init__(self, source: Callable[[int], ShardSource], shards: int, settings: Settings, *, public: Any = None):
        self.ray, self.settings, self.source = import_ray(), settings, source
        self._public = self.ray.put(public)
        self.moved, self.mended = 0, 0  # bytes between driver and actors; actors that were made anew
        self.actors = self._start(range(shards))

    def each(self, call: str, *args: Any) -> list[Any]:
        """Call every shard; the answers in the order of shards."""
        return self._answers(self._submit_all(call, args))

    def one(self, at: int, call: str, *args: Any) -> Any:
        """Call one shard."""
        return self._answers([_submit(self.actors[at], call, args)])[0]

    def summed(self, call: str, *args: Any) -> Any:
        """Call every shard; the sum of the answers, added up by a tree of tasks with a fan-in of sixteen."""
        pairs = self._submit_all(call, args)
        refs = [answer for answer, _ in pairs]
        add = self.ray.remote(num_cpus=0)(_added)
        while len(refs) > FAN_IN:
            refs = [add.remote(*refs[at : at + FAN_IN]) for at in range(0, len(refs), FAN_IN)]
        found = self._get([*refs, *(size for _, size in pairs)])
        self.moved += sum(found[len(refs) :])
        return added(found[: len(refs)])

    def among(self, give: str, take: str) -> None:
        """Hand what each shard gives to every shard, itself too: from store to store, never through the driver."""
        for giver in self.actors:
            given, size = _submit(giver, give, ())
            self._get([taker.receive.remote(take, given) for taker in self.actors])
            self.moved += len(self.actors) * self._get([size])[0]

    def mend(self) -> int:
        """Replace lost actors; how many there were. The others keep their state."""
        pings = [_submit(actor, "made_with", ())[0] for actor in self.actors]
        lost = [at for at, ping in enumerate(pings) if not self._answers_at_all(ping)]
        for at, actor in zip(lost, self._start(lost), strict=True):
            self.actors[at] = actor
        self.mended += len(lost)
        return len(lost)

    def renew(self) -> None:
        """Replace all actors."""
        self.dismiss()
        self.actors = self._start(range(len(self.actors)))

    def dismiss(self) -> None:
        for actor in self.actors:
            self.ray.kill(actor)

    def _start(self, which: Sequence[int]) -> list[Any]:
        """Start actors, and load their shards. Where fewer CPUs are free than actors, they share them."""
        crowded = False
        for attempt in range(ATTEMPTS):
            free = 0.0 if crowded else self.ray.available_resources().get("CPU", 0.0)
            # a whole CPU each or none, never a fraction: three halves do not fit on two nodes with one CPU each
            cpus = 1 if free >= len(which) else 0
            remote = self.ray.remote(num_cpus=cpus, scheduling_strategy="SPREAD")(Worker)
            actors = [remote.remote() for _ in which]
            crowded = not self._placed(actors, patience=PLACED * 2 ** min(attempt, 5))
            try:
                if not crowded:
                    _refuse_other_programs(self._get([actor.made_with.remote() for actor in actors]))
                    self._get([self.load(actor, at) for actor, at in zip(actors, which, strict=True)])
                    return actors
            except ActorLostError:
                sleep(PAUSE)
            for actor in actors:
                self.ray.kill(actor)
        raise StateError("actors die as soon as they are made; the nodes of the cluster may lack memory")

    def _placed(self, actors: Sequence[Any], *, patience: float) -> bool:
        """Whether all actors have a process. Free CPUs are known only roughly, so an actor may wait forever for one."""
        pings = [actor.process.remote() for actor in actors]
        return not pings or not self.ray.wait(pings, num_returns=len(pings), timeout=patience)[1]

    def load(self, actor: Any, at: int) -> Any:
        """A reference that resolves when the actor has loaded its shard."""
        return actor.load.remote(self.ray.put(self.source(at)), self.settings, self._public)

    def _submit_all(self, call: str, args: tuple[Any, ...]) -> list[Any]:
        """For each shard references to its answer and to the size of the answer in bytes."""
        held = self.ray.put(args)
        self.moved += array_bytes(args) * sum(node["Alive"] for node in self.ray.nodes())
        return [_submit(actor, call, held) for actor in self.actors]

    def _answers(self, pairs: Sequence[Any]) -> list[Any]:
        found = self._get([ref for pair in pairs for ref in pair])
        self.moved += sum(found[1::2])
        return found[::2]

    def _answers_at_all(self, ref: Any) -> bool:
        try:
            self._get([ref])
        except ActorLostError:
            return False
        return True

    def _get(self, refs: Sequence[Any]) -> list[Any]:
        found: list[Any] = _get(self.ray, list(refs))
        return found


def _submit(actor: Any, call: str, args: Any) -> Any:
    """References to the answer and to its size; `args` may be a reference too."""
    return actor.call.options(num_returns=2).remote(call, args)


def _get(ray: Any, refs: Any) -> Any:
    """What references stand for. An error of ours is raised as it was in the actor; ActorLostError where Ray reports,
    directly or inside a task, that a process or a node is gone."""
    known = ray.exceptions
    gone = (
        known.RayActorError,
        known.ObjectLostError,
        known.WorkerCrashedError,
        known.NodeDiedError,
        known.OutOfMemoryError,  # Ray's own watch over a node's memory
    )
    try:
        return ray.get(refs)
    except (known.RayTaskError, *gone) as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, PrirecError):
            raise cause from None
        if isinstance(error, gone) or isinstance(cause, gone):
            raise ActorLostError("an actor of the cluster was lost") from None
        raise


def _added(*parts: Any) -> Any:
    return added(parts)


def _refuse_other_programs(found: Sequence[dict[str, str]]) -> None:
    """UsageError where a node has other versions of what results depend on: its bits could differ."""
    here = versions()
    for there in found:
        for name, version in there.items():
            if version != here[name]:
                raise UsageError(
                    f"a node of the cluster has {name} {version}, and this machine {here[name]}: results would differ; "
                    "install the same everywhere"
                )


# Independent tasks, for searches and repeats


Item = TypeVar("Item")
Answer = TypeVar("Answer")
RETRIES = 3  # of a task whose worker or node died


def map_tasks(
    function: Callable[[Any, Item], Answer], shared: Any, items: Sequence[Item], *, processors: int = 1
) -> Iterator[Answer]:
    """function(shared, item) for each item, over all nodes, in the order of items. `shared` goes once to each node."""
    ray = import_ray()
    held = ray.put(shared)
    remote = ray.remote(num_cpus=processors, max_retries=RETRIES)(function)
    for ref in [remote.remote(held, item) for item in items]:
        try:
            yield _get(ray, ref)
        except ActorLostError:
            raise StateError("a worker of the cluster died again and again; what was done before is kept") from None
