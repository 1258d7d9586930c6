"""Whole pieces of work as Ray tasks over all nodes: for searches and repeats, whose parts do not wait for others."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from prirec.cluster.connecting import library
from prirec.cluster.crew import ActorTrouble
from prirec.errors import PrirecError, StateError

Item = TypeVar("Item")
Answer = TypeVar("Answer")
RETRIES = 3  # of a task whose worker or node died


def in_tasks(
    function: Callable[[Any, Item], Answer], shared: Any, items: Sequence[Item], *, processors: int = 1
) -> Iterator[Answer]:
    """function(shared, item) for each, in the order of items. What is shared goes once to each node."""
    ray = library()
    held = ray.put(shared)
    remote = ray.remote(num_cpus=processors, max_retries=RETRIES)(function)
    for ref in [remote.remote(held, item) for item in items]:
        try:
            yield ray.get(ref)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, PrirecError):
                raise error.cause from None
            raise
        except ActorTrouble(ray).kinds:
            raise StateError("a worker of the cluster died again and again; what was done before is kept") from None
