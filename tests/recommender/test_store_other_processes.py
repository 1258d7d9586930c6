"""Workers on one database: none loses anything of another's, readers skip nothing, and one of them conducts."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen

from prirec.protocols.party import Persist, Stage
from prirec.recommender.store import MOST_MESSAGES, Store
from support.processes import finish, start
from support.stores import ONE, enter, name, of, said

HEAD = """
from prirec.recommender.store import Store
from support.stores import FOUNDING, enter, invite, name, of, said
url, own = sys.argv[2], int(sys.argv[3])
sys.stdin.readline()
"""
WORKERS = 2


def workers(text: str, folder: Path, url: str) -> "list[Popen[str]]":
    """So many at once."""
    processes = [start(HEAD + text, folder, url, own) for own in range(WORKERS)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


HANDING_IN = """
with Store.open(url) as store:
    for batch in range(40):
        senders = [1000 * own + 3 * batch + at for at in range(3)]
        invite(store, *map(name, senders), to=of(1 + batch % 4))
        if not all(store.post_messages([said(at, bytes([own, batch]), to=of(1 + batch % 4)) for at in senders])):
            raise SystemExit("not taken")
        store.deliver([(name(own), of(1), bytes([own, batch]))])
"""


def test_a_reader_skips_nothing_while_others_write(store: Store, url: str, tmp_path: Path) -> None:
    """Numbers are seen in the order in which they were given: whoever reads on from the last one misses none."""
    enter(store, *(of(number) for number in range(1, 5)))
    processes = workers(HANDING_IN, tmp_path, url)
    heard: list[bytes] = []
    looked, after, woken, meanwhile = 0, 0, set[bytes](), 0
    while (going_on := any(process.poll() is None for process in processes)) or store.incoming(after, 1):
        page = store.incoming(after, 7)
        heard += [body for _, body in page]
        after = page[-1][0] if page else after
        looked, receivers = store.receivers_since(looked)
        woken |= receivers
        meanwhile += going_on and bool(page)
    assert [finish(process) for process in processes] == [[]] * WORKERS
    assert meanwhile > 1
    expected = {bytes([own, batch]) for own in range(WORKERS) for batch in range(40)}
    assert sorted(heard) == sorted([*expected] * 3)
    assert woken == {name(own) for own in range(WORKERS)}
    queued = [one.body for own in range(WORKERS) for one in store.queued(name(own), 0, 1000)]
    assert sorted(queued) == sorted(expected)


def test_of_two_that_begin_at_once_one_makes_the_tables_one_founds_and_one_conducts(url: str, tmp_path: Path) -> None:
    text = """
with Store.open(url) as store:
    store.enrol(name(own), day=1)
    try:
        store.found(FOUNDING)
        say("founded")
    except StateError:
        pass
    for _ in range(20):
        if store.lease(bytes([own]), 60):
            say(f"{own}")
"""
    told = [finish(process) for process in workers(text, tmp_path, url)]
    assert sum(one.count("founded") for one in told) == 1
    assert sorted(len(set(one) - {"founded"}) for one in told) == [0, 1]
    with Store.open(url) as store:
        assert store.people() == [name(0), name(1)]
        assert not store.lease(b"somebody else", 60)


def test_a_sum_is_opened_by_one_worker_and_every_number_once(store: Store, url: str, tmp_path: Path) -> None:
    """Without a lease, to see that the journal alone holds: all enter the same rounds, each in its own way."""
    text = """
with Store.open(url) as store:
    for number in range(1, 30):
        try:
            store.write(Persist(of(number), Stage.ENTERED, bytes([own])))
            store.write(Persist(of(number), Stage.OPENED, bytes([own])))
            say(f"{number}")
        except StateError:
            pass
"""
    opened = [set(map(int, finish(process))) for process in workers(text, tmp_path, url)]
    for number in range(1, 30):
        assert sum(number in one for one in opened) <= 1
    entries = {entry.round.number: entry for entry in store.rounds(100)}
    for number, entry in entries.items():
        who = [own for own in range(WORKERS) if number in opened[own]]
        assert (entry.stage is Stage.OPENED) == bool(who)
        assert not who or entry.digest == bytes(who)


def test_threads_share_a_store_and_none_waits_for_ever(store: Store) -> None:
    enter(store, of())

    def work(at: int) -> int:
        for number in range(MOST_MESSAGES):
            store.post_messages([said(at, bytes([number]))])
            store.deliver([(name(at), of(), bytes([number]))])
            store.head()
        return len(store.queued(name(at), 0, 100))

    with ThreadPoolExecutor(20) as pool:  # more than there are connections
        assert list(pool.map(work, range(20))) == [MOST_MESSAGES] * 20
    assert len(store.incoming(0, 1000)) == 20 * MOST_MESSAGES
    store.write(Persist(of(), Stage.BURNT, ONE))
    assert store.incoming(0, 1000) == []


def test_a_file_needs_nothing_that_is_slow_to_import(tmp_path: Path) -> None:
    text = f"""
from prirec.recommender.store import Store
Store.open({str(tmp_path / "store")!r}).close()
say(" ".join(sorted({{"psycopg", "fastapi", "uvicorn", "numba"}} & set(sys.modules))))
"""
    assert finish(start(text, tmp_path)) == [""]
