"""Permanent answers of a device: paid for, kept and sent in that order, whatever crashes, and never drawn twice."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prirec.device.answer_tables import ANSWERS
from prirec.device.answers import AnsweringStore
from prirec.device.ledger import PaidStore
from prirec.device.person import Person
from prirec.device.store import MIGRATIONS, Store
from prirec.errors import PolicyError, StateError, UsageError
from prirec.privacy.answers import Asked
from prirec.privacy.ledger import Budget, Ledger
from prirec.privacy.memo import Question
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.protocols.actions import Persist, Stage
from support.journals import ONE, of
from support.processes import ends, finish, start

DAY = 20_700
JUNE, JULY = Question("visited", 20_605, 20_634), Question("visited", 20_635, 20_665)  # of 2026
PLACES = tuple(f"place {j}" for j in range(20))
TRUTH = np.arange(20) % 3 == 0
BUDGET = Budget(4.0, 1e-6, local=2.5)
ASKED = Asked(bytes(16), JUNE, PLACES, RandomizedResponse(0.0625))  # 1.25 for all 20: two such are covered
BEFORE = MIGRATIONS.index(ANSWERS)  # the version that had no answers


@pytest.fixture
def answering(store: Store) -> AnsweringStore:
    return AnsweringStore(store, BUDGET)


def ledger_of(answering: AnsweringStore) -> Ledger:
    return PaidStore(answering._store, answering.budget).ledger()


def secret_in(path: Path) -> list[bytes]:
    with closing(sqlite3.connect(path)) as rows:
        return [value for (value,) in rows.execute("SELECT value FROM secrets")]


def test_the_first_answer_is_paid_for_and_the_same_again_is_free(answering: AnsweringStore) -> None:
    first = answering.answer(ASKED, TRUTH, day=DAY)
    assert (first.shape, first.dtype) == ((20,), np.bool_)
    for later in (DAY, DAY + 1000):
        assert answering.answer(ASKED, TRUTH, day=later).tobytes() == first.tobytes()
    (entry,) = ledger_of(answering).entries
    assert (entry.charge, entry.day) == (ASKED.charge, DAY)


def test_answers_are_noisy_and_no_two_devices_flip_alike(tmp_path: Path) -> None:
    """20 devices, 400 fair-enough coins: all true, all false or all alike has odds below 1e-50."""
    said = []
    for number in range(20):
        with Store.open(tmp_path / f"device{number}") as store:
            said.append(AnsweringStore(store, BUDGET).answer(ASKED, TRUTH, day=DAY))
    wrong = np.array(said) ^ TRUTH
    assert 0.3 < wrong.mean() < 0.65  # 0.484 are flipped
    assert len({one.tobytes() for one in said}) == 20
    assert len({secret for number in range(20) for secret in secret_in(tmp_path / f"device{number}")}) == 20


def test_places_in_another_order_get_the_same_answers_each(answering: AnsweringStore) -> None:
    first, order = answering.answer(ASKED, TRUTH, day=DAY), np.arange(20)[::-1]
    shuffled = replace(ASKED, places=tuple(PLACES[at] for at in order))
    assert answering.answer(shuffled, TRUTH[order], day=DAY).tolist() == first[order].tolist()
    assert len(ledger_of(answering).entries) == 1


def test_a_truth_that_moves_afterwards_does_not_show(path: Path, answering: AnsweringStore) -> None:
    first = answering.answer(ASKED, TRUTH, day=DAY)
    for moved in (~TRUTH, np.zeros(20, dtype=bool)):
        assert answering.answer(ASKED, moved, day=DAY).tobytes() == first.tobytes()
    with Store.open(path) as again:
        assert AnsweringStore(again, BUDGET).answer(ASKED, ~TRUTH, day=DAY).tobytes() == first.tobytes()


def test_a_new_window_costs_in_full_and_a_third_overspends(answering: AnsweringStore) -> None:
    answering.answer(ASKED, TRUTH, day=DAY)
    answering.answer(replace(ASKED, question=JULY), TRUTH, day=DAY)
    held = ledger_of(answering)
    assert sum(loss.epsilon for loss in held.spent(BUDGET).local) == 2.5
    third = replace(ASKED, question=Question("visited", 20_605, 20_665))
    with pytest.raises(PolicyError, match=r"does not cover another release for answers about 2026-06-01 to 2026-07-31"):
        answering.answer(third, TRUTH, day=DAY)
    assert ledger_of(answering) == held
    with answering._store.reading() as rows:
        assert rows.execute("SELECT count(*) FROM answers").fetchone()[0] == 2
    assert answering.answer(ASKED, TRUTH, day=DAY).shape == (20,)  # what is paid for is still said


@pytest.mark.parametrize("places", [(*PLACES, "a new place"), PLACES[:19], (*PLACES[:19], "a new place")])
def test_a_catalogue_that_grew_is_not_asked_about_for_free(answering: AnsweringStore, places: tuple[str, ...]) -> None:
    answering.answer(ASKED, TRUTH, day=DAY)
    grown = replace(ASKED, places=places)
    truth = np.resize(TRUTH, len(places))
    if len(places) > 20:
        with pytest.raises(PolicyError, match="does not cover"):
            answering.answer(grown, truth, day=DAY)
        answering.budget = Budget(4.0, 1e-6, local=3.0)
    answering.answer(grown, truth, day=DAY)
    assert [loss.epsilon for one in ledger_of(answering).entries for loss in one.charge.cost.local] == [
        1.25,
        0.0625 * len(places),
    ]


def test_another_recommender_pays_and_hears_other_noise(answering: AnsweringStore) -> None:
    first = answering.answer(ASKED, TRUTH, day=DAY)
    other = answering.answer(replace(ASKED, deployment=b"\1" * 16), TRUTH, day=DAY)
    assert first.tolist() != other.tolist()  # odds of 1e-6
    assert len(ledger_of(answering).entries) == 2


@pytest.mark.parametrize("day", [JUNE.first_day, JUNE.last_day])
def test_an_open_window_is_refused_and_nothing_is_charged(answering: AnsweringStore, day: int) -> None:
    with pytest.raises(PolicyError, match="days that are over"):
        answering.answer(ASKED, TRUTH, day=day)
    assert ledger_of(answering) == Ledger()
    answering.answer(ASKED, TRUTH, day=JUNE.last_day + 1)


def test_without_a_purse_for_answers_nothing_is_answered(store: Store) -> None:
    answering = AnsweringStore(store, Budget(50.0, 1e-6))
    with pytest.raises(PolicyError, match="nothing is sent"):
        answering.answer(ASKED, TRUTH, day=DAY)
    assert ledger_of(answering) == Ledger()


@pytest.mark.parametrize("truth", [TRUTH[1:], TRUTH.astype(int)])
def test_a_truth_that_does_not_fit_the_question_is_not_charged(answering: AnsweringStore, truth: np.ndarray) -> None:
    with pytest.raises(UsageError, match="one truth"):
        answering.answer(ASKED, truth, day=DAY)
    assert ledger_of(answering) == Ledger()


# What the file keeps


def test_the_secret_is_there_from_the_first_day_and_stays(path: Path) -> None:
    with Store.open(path):
        pass
    (drawn,) = secret_in(path)
    assert len(drawn) == 32
    with Store.open(path) as store:
        AnsweringStore(store, BUDGET).answer(ASKED, TRUTH, day=DAY)
    assert secret_in(path) == [drawn]


def test_an_older_copy_that_is_put_back_draws_nothing_anew(path: Path) -> None:
    """It has forgotten the charge, which nothing in the file can show; but not the secret."""
    with Store.open(path):
        pass
    shutil.copy(path, path.with_name("copy"))
    with Store.open(path) as store:
        first = AnsweringStore(store, BUDGET).answer(ASKED, TRUTH, day=DAY)
    with Store.open(path.with_name("copy")) as store:
        assert AnsweringStore(store, BUDGET).answer(ASKED, TRUTH, day=DAY).tobytes() == first.tobytes()


def test_a_file_from_before_gets_a_secret_and_a_copy_is_left(path: Path) -> None:
    with Store.open(path, migrations=MIGRATIONS[:BEFORE]) as store:
        store.write(Persist(of(1), Stage.ENTERED, ONE))
    with Store.open(path) as store:
        assert store.entry(of(1)) is not None
        AnsweringStore(store, BUDGET).answer(ASKED, TRUTH, day=DAY)
    assert len(secret_in(path)) == 1
    copy = path.with_name(f"{path.name}.version-{BEFORE}")
    with closing(sqlite3.connect(copy)) as rows:
        tables = {name for (name,) in rows.execute("SELECT name FROM sqlite_master")}
    assert "rounds" in tables
    assert not {"answers", "secrets"} & tables


def test_what_a_person_forgets_is_gone_and_not_answered_anew(path: Path) -> None:
    with Store.open(path) as store:
        answering = AnsweringStore(store, BUDGET)
        answering.answer(ASKED, TRUTH, day=DAY)
        (drawn,) = secret_in(path)
        Person(store).forget()
        held = ledger_of(answering)
        assert len(held.entries) == 1  # what was spent is spent
        with pytest.raises(PolicyError, match="have been erased on this device since"):
            answering.answer(ASKED, TRUTH, day=DAY)
        assert ledger_of(answering) == held
        answering.answer(replace(ASKED, question=JULY), TRUTH, day=DAY)
    (anew,) = secret_in(path)
    assert anew != drawn
    assert drawn not in path.read_bytes()


@pytest.mark.parametrize(
    ("statement", "refusal"),
    [
        ("UPDATE answers SET answers = x'00'", "said"),
        ("UPDATE secrets SET value = zeroblob(32)", "secret"),
        ("INSERT INTO answers VALUES (x'00', 1, 1, zeroblob(32), x'00')", "unpaid"),
        ("INSERT INTO secrets VALUES ('answers', zeroblob(32))", "UNIQUE"),
        ("INSERT INTO secrets VALUES ('short', x'00')", "CHECK"),
    ],
)
def test_the_file_itself_refuses_what_is_unpaid_or_would_change(
    path: Path, answering: AnsweringStore, statement: str, refusal: str
) -> None:
    answering.answer(ASKED, TRUTH, day=DAY)
    with closing(sqlite3.connect(path)) as rows, pytest.raises(sqlite3.IntegrityError, match=refusal):
        rows.execute(statement)


def test_an_answer_to_another_question_under_the_same_name_is_not_sent(path: Path, answering: AnsweringStore) -> None:
    """Two questions of one name would take 2^63 tries to find; here the row is put there by hand."""
    answering.answer(ASKED, TRUTH, day=DAY)
    with closing(sqlite3.connect(path)) as rows, rows:
        kept = rows.execute("SELECT deployment, number, attempt, answers FROM answers").fetchone()
        rows.execute("DELETE FROM answers")
        rows.execute("INSERT INTO answers VALUES (?, ?, ?, zeroblob(32), ?)", kept)
    with pytest.raises(StateError, match="another question was paid for"):
        answering.answer(ASKED, TRUTH, day=DAY)


def test_neither_secret_nor_truth_is_in_a_text(answering: AnsweringStore) -> None:
    answering.answer(ASKED, TRUTH, day=DAY)
    with answering._store.reading() as rows:
        secret = rows.execute("SELECT value FROM secrets").fetchone()[0]
    answering.budget = Budget(4.0, 1e-6)
    with pytest.raises(PolicyError) as refused:
        answering.answer(replace(ASKED, question=JULY), TRUTH, day=DAY)
    told = f"{refused.value!r} {refused.value} {answering!r} {answering._store!r}"
    assert secret.hex() not in told
    assert repr(secret) not in told
    assert "place 1" not in told


# Killed

COMMON = """
import numpy as np
from prirec.device.answer_tables import ANSWERS
from prirec.device.answers import AnsweringStore
from prirec.privacy.answers import Asked
from prirec.privacy.ledger import Budget
from prirec.privacy.memo import Question
from prirec.privacy.randomized_response import RandomizedResponse

places, truth = tuple(f"place {j}" for j in range(20)), np.arange(20) % 3 == 0
june, july = Question("visited", 20_605, 20_634), Question("visited", 20_635, 20_665)
questions = [Asked(bytes(16), window, places, RandomizedResponse(0.0625)) for window in (june, july)]
budget = Budget(4.0, 1e-6, local=2.5)
"""
KILLED = (
    COMMON
    + """
def lives(point):
    def writes(store):
        answering = AnsweringStore(store, budget)
        with (folder / f"said{point}").open("wb", buffering=0) as said:
            for asked in questions:
                said.write(answering.answer(asked, truth, day=20_700).tobytes())
                yield
    write_until(point, folder, writes)

outlive(lives, first=-2)
"""
)


def test_after_a_kill_at_any_point_what_was_said_is_paid_for_and_said_again_the_same(tmp_path: Path) -> None:
    killed, survived = ends(start(KILLED, tmp_path))
    assert survived >= 2 * 6
    questions, reached = (ASKED, replace(ASKED, question=JULY)), set()
    for point in killed:
        said = (tmp_path / f"said{point}").read_bytes()
        heard = [said[at : at + 20] for at in range(0, len(said), 20)]
        with Store.open(tmp_path / f"journal{point}") as store:
            answering = AnsweringStore(store, BUDGET)
            charged = len(ledger_of(answering).entries)
            with store.reading() as rows:
                assert rows.execute("SELECT count(*) FROM answers").fetchone()[0] == charged
            assert charged == len(heard)  # nothing said is unpaid, nothing unsaid is charged
            again = [answering.answer(asked, ~TRUTH, day=DAY).tobytes() for asked in questions[: len(heard)]]
            assert again == heard
            assert len(ledger_of(answering).entries) == charged
            reached.add(charged)
    assert reached == {0, 1, 2}


TWICE = (
    COMMON
    + """
with Store.open(folder / "journal") as store:
    say("ready")
    sys.stdin.readline()
    said = [AnsweringStore(store, budget).answer(asked, truth, day=20_700) for asked in questions]
    say(b"".join(one.tobytes() for one in said).hex())
"""
)


def test_two_processes_with_one_file_say_the_same_and_pay_once(tmp_path: Path) -> None:
    processes = [start(TWICE, tmp_path) for _ in range(2)]
    for one in processes:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in processes:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    (first,), (second,) = (finish(one) for one in processes)
    assert first == second
    with Store.open(tmp_path / "journal") as store:
        assert len(ledger_of(AnsweringStore(store, BUDGET)).entries) == 2
