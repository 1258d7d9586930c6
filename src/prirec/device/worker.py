"""The process in which a device computes what it adds to sums: python -m prirec.device.worker

Whoever writes the documents of a campaign could choose them so that some records take longer than others, or more
memory. So an agent does not compute with records. It starts a process for that each time, before it sends its keys, and
kills it when the time for a contribution is over, whatever has become of it (device/agent.py). The process reads no
record before it is told to: until then all that it does is known to everyone. It ends with its agent, also where that
is killed.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import numpy as np

from prirec.device.person import Person
from prirec.device.rounds import Contribution, contributions_at, prepare
from prirec.device.store import Store
from prirec.device.sync import View
from prirec.protocols.messages import Round
from prirec.util.decode_errors import NOT_DECODED
from prirec.util.system import disable_core_dumps, limit_memory

MOST_MEMORY = 2**31  # bytes of addresses, of which an idle process takes a fifth
LONGEST_START = 120.0  # seconds: a machine that has to compile the kernels first takes some
_READY, _GO = b"r", b"g"
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Job(msgspec.Struct, frozen=True):
    """What the process is told on standard input."""

    path: bytes  # of the device's file, which need be no text
    rounds: tuple[Round, ...]
    memory: int  # bytes


class Worker:
    """The agent's side of the process; None: none could be started. Threads wait for what it writes, and end with it:
    asyncio's own processes need an event loop that watches children."""

    def __init__(self, process: "subprocess.Popen[bytes] | None") -> None:
        self._process = process

    async def begin(self, job: Job) -> None:
        """Returns when the process is ready, has died, or takes too long to start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_START):
                await asyncio.to_thread(self._ask, msgspec.json.encode(job) + b"\n", len(_READY))

    async def contributions(self) -> dict[Round, Contribution]:
        """What the process has computed, without those contributions that it failed at; nothing if it has died."""
        try:
            return dict(_answers.decode(await asyncio.to_thread(self._ask, _GO)))
        except NOT_DECODED:
            return {}

    async def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._close, self._process)

    def _ask(self, words: bytes, answer: int = -1) -> bytes:
        """Its answer of so many bytes, or all until it ends."""
        if self._process is None or self._process.stdin is None or self._process.stdout is None:
            return b""
        with suppress(OSError):  # it has died: there is nothing more to read
            self._process.stdin.write(words)
        return self._process.stdout.read(answer)

    @staticmethod
    def _close(process: "subprocess.Popen[bytes]") -> None:
        with process, suppress(OSError):  # leaving it closes the pipes, and waits
            process.wait()


@asynccontextmanager
async def started(path: Path, rounds: Sequence[Round]) -> AsyncIterator[Worker]:
    """A process that is ready to compute the contributions to these rounds. It has ended when this is left."""
    worker = Worker(_process())
    try:
        await worker.begin(Job(os.fsencode(path), tuple(rounds), MOST_MEMORY))
        yield worker
    finally:
        await worker.end()


def _process() -> "subprocess.Popen[bytes] | None":
    """The process, or None where there can be none."""
    if getattr(sys, "frozen", False):  # an app packed into one program: it would start the app once more
        return None
    path = os.pathsep.join(filter(None, sys.path))  # an app may have put the package where Python does not look
    with suppress(OSError):
        return subprocess.Popen(  # noqa: S603  this program itself
            [sys.executable or "", "-P", "-m", "prirec.device.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            env=os.environ | _ONE_THREAD | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the program, which may go on
        )  # fmt: skip
    return None


# Arrays go as their kind and their bytes: nothing that is read back may run code.


def _array_to(value: Any) -> Any:
    return (value.dtype.str, value.tobytes())


def _array_from(kind: Any, value: Any) -> Any:
    return np.frombuffer(value[1], dtype=value[0]).copy()


_answers: msgspec.msgpack.Decoder[list[tuple[Round, Contribution]]] = msgspec.msgpack.Decoder(
    list[tuple[Round, Contribution]], dec_hook=_array_from
)


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    disable_core_dumps()
    limit_memory(job.memory)
    with Store.connected(Path(os.fsdecode(job.path))) as store:
        person = Person(store)
        view = View.of(person)
        prepare(view)
        sys.stdout.buffer.write(_READY)
        sys.stdout.buffer.flush()
        if sys.stdin.buffer.read(1) == _GO:
            Thread(target=_end_with_the_agent, daemon=True).start()
            made = contributions_at(view, person, job.rounds)
            sys.stdout.buffer.write(msgspec.msgpack.encode(list(made.items()), enc_hook=_array_to))


def _end_with_the_agent() -> None:
    """An agent that was killed cannot kill this process: but then nobody holds the other end of the pipe."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    main()
