"""A worker that is killed, at any statement or any moment, leaves all that it told of and nothing by halves."""

from pathlib import Path

from prirec.protocols.party import Persist, Stage
from prirec.recommender.store import Store
from support.processes import finish, start
from support.stores import everything
from support.waiting import PATIENCE

HEAD = """
from prirec.recommender import database, postgres
from prirec.recommender.store import Store
from support.processes_to_kill import die
from support.stores import enter, everything, follow, prepare
url = sys.argv[2]
"""

AT_ANY_STATEMENT = (
    HEAD
    + """
def doomed(point):
    left = point
    def counted(does, dies_before):
        def call(*arguments):
            nonlocal left
            left -= dies_before
            if left < 0:
                die()
            result = does(*arguments)
            left -= not dies_before
            if left < 0:
                die()
            return result
        return call
    for kind in (database.SqliteConnection, postgres.PostgresConnection):
        for method in ("begin", "one", "all", "execute", "execute_many", "commit"):
            setattr(kind, method, counted(getattr(kind, method), method != "commit"))

with Store.open(url) as store:
    prepare(store)
    before = everything(store)
for point in range(100):
    child = os.fork()
    if child == 0:
        store = Store.open(url)
        doomed(point)
        follow(store)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with Store.open(url) as store:
        say(f"{killed} {everything(store) == before}")
        if everything(store) != before:
            break
"""
)


def test_a_kill_at_any_statement_leaves_what_follows_from_a_sum_undone_or_done(tmp_path: Path, url: str) -> None:
    """The last life dies right after its commit, before anybody is told: what it did is there, all of it."""
    ends = [line.split() for line in finish(start(AT_ANY_STATEMENT, tmp_path, url))]
    assert len(ends) > 15
    assert ends[:-1] == [["True", "True"]] * (len(ends) - 1)
    assert ends[-1] == ["True", "False"]
    with Store.open(url) as store:
        killed = everything(store)
        assert store.progress() == b"after"
        assert [entry.stage for entry in store.rounds(9)] == [Stage.OPENED] * 2
        assert (store.head().length, store.counts().documents, store.counts().queued) == (1, 1, 0)
        assert store.incoming(0, 9) == []
    with Store.open(url) as again:
        assert everything(again) == killed


AT_ANY_MOMENT = (
    HEAD
    + """
def lives(told):
    with Store.open(url) as store:
        begun = store.head().length
        for number in range(begun, 1000):
            campaign_round(store, number, lambda step: os.write(told, f"{number} {step}\\n".encode()))

for life in range(8):
    said, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(said)
        lives(told)
    os.close(told)
    heard = b""
    while heard.count(b"\\n") < life + 1:
        heard += os.read(said, 65536) or sys.exit("it died by itself")
    time.sleep(0.0007 * life)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(said, 65536):
        heard += more
    os.close(said)
    with Store.open(url) as store:
        store.release(b"")  # a server may still be busy with what a client said before it died
        say(" ".join(map(str, (*heard.decode().split()[-2:], *standing(store)))))
"""
).replace("enter, everything, follow, prepare", "campaign_round, standing")


def test_a_kill_at_any_moment_leaves_a_prefix_with_all_that_was_acknowledged(tmp_path: Path, url: str) -> None:
    """Each line: the last step that was told, then the lengths of log and progress, rounds opened and messages kept.

    A next life finds the round that the last one left open, and goes on with another attempt at it."""
    lines = [tuple(map(int, line.split())) for line in finish(start(AT_ANY_MOMENT, tmp_path, url))]
    assert len(lines) == 8
    for number, step, log, progress, opened, messages in lines:
        assert log == progress == opened  # whole, whatever was told
        if step == 2:  # advanced
            assert log in (number + 1, number + 2)
        else:
            assert log in (number, number + 1)
        if (log, step) == (number, 1):  # handed in, and not over
            assert messages == 1
    assert lines[-1][2] > lines[0][2]


def test_the_next_conductor_burns_what_a_killed_one_left_open(tmp_path: Path, url: str) -> None:
    text = (
        HEAD
        + """
store = Store.open(url)
if not store.lease(b"first", 0.2):
    raise SystemExit("somebody else conducts")
prepare(store)
die()
"""
    )
    process = start(text, tmp_path, url)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -9
    with Store.open(url) as store:
        while not store.lease(b"second", 60):
            pass
        left = store.open_rounds()
        assert len(left) == len(store.incoming(0, 9)) == store.counts().queued == 2
        store.advance(progress=b"", persists=[Persist(one, Stage.BURNT, bytes(32)) for one in left], holder=b"second")
        counts = store.counts()
        assert (counts.open_rounds, counts.messages, counts.queued) == (0, 0, 0)
