"""A journal whose process was killed, at any statement or any moment, has all that was told and goes on from there."""

from pathlib import Path

import pytest

from prirec.device.store import Store
from prirec.protocols.party import Persist, Stage
from support.journals import LEDGER, ONE, after, charges, holds, life, of
from support.processes import ends, finish, start

KILLED = """
def writes(store):
    for one in life(1):
        yield store.write(one)

outlive(lambda point: write_until(point, folder, writes), first=-5)
"""


def test_a_kill_at_any_point_leaves_a_prefix_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    killed, survived = ends(start(KILLED, tmp_path))
    assert survived >= 5 * 4  # at least BEGIN, two questions, a write (and COMMIT) for each of five stages
    reached = []
    for point in killed:
        told = len((tmp_path / f"told{point}").read_bytes())
        with Store.open(tmp_path / f"journal{point}") as store:
            held = holds(store, range(9))
            written = next(n for n in range(6) if held == after(life(1)[:n]))
            assert written == told + (point < 0)
            if written < 5:
                assert store.write(life(1)[written]) == after(life(1)[: written + 1])[1]  # it goes on where it was
        reached.append(written)
    assert set(reached) == set(range(6))


ANY_MOMENT = """
def lives(at):
    with open(folder / f"told{at}", "wb", buffering=0) as told, Store.open(folder / f"journal{at}") as store:
        for number in range(1000):
            for one in life(number):
                store.write(one)
                told.write(b".")

for at in range(12):
    child, told = os.fork(), folder / f"told{at}"
    if child == 0:
        lives(at)
        os._exit(0)
    while not told.exists() or not told.stat().st_size:
        time.sleep(0.001)
    time.sleep(0.0007 * at)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


def test_a_kill_at_any_moment_leaves_a_prefix_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    """Most of a write's time goes into its commit, so most of these kills fall inside one."""
    assert finish(start(ANY_MOMENT, tmp_path)) == []
    writes = [one for number in range(100) for one in life(number)]
    for at in range(12):
        told = len((tmp_path / f"told{at}").read_bytes())
        assert told > 0
        with Store.open(tmp_path / f"journal{at}") as store:
            assert holds(store, range(100)) in (after(writes[:told]), after(writes[: told + 1]))


@pytest.mark.parametrize("kind", ["fresh", "migrating"])
def test_a_kill_while_opening_leaves_a_file_that_opens(tmp_path: Path, kind: str) -> None:
    text = """
from prirec.device import store as file

connect = file._connect

def lives(point):
    if sys.argv[2] == "migrating":
        with Store.open(folder / f"journal{point}") as store:
            store.write(life(1)[0])
    count = dying_at(point)
    def traced(path):
        connection = connect(path)
        connection.set_trace_callback(count)
        return connection
    file._connect = traced
    Store.open(folder / f"journal{point}", migrations=LEDGER).close()

outlive(lives)
"""
    killed, survived = ends(start(text, tmp_path, kind))
    assert survived > 6
    for point in killed:
        with Store.open(tmp_path / f"journal{point}", migrations=LEDGER) as store:
            assert holds(store, range(9)) == (after(life(1)[:1]) if kind == "migrating" else {})
            assert charges(store) == 0
            store.write(Persist(of(7), Stage.ENTERED, ONE))
