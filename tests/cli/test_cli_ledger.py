"""prirec privacy ledger: a device's store is read, and left as it was."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from prirec.device.ledger import LedgerStore, Price
from prirec.device.store import MIGRATIONS, Store, seal_ledger
from prirec.errors import PolicyError
from prirec.privacy.accountant import Spent, Unit, affordable, local_loss
from prirec.privacy.ledger import Budget
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from support import messages, shell
from support.shell import flat
from support.version_4_charges import charge_answer

TENTH = Price("mixing of linear models", Spent(affordable(1.0, 1e-6).grains // 10))
SECRET = b"deployment-42-xy"
call, told = partial(shell.call, "privacy"), partial(shell.told, "privacy")


def today() -> int:
    return int(time.time() // 86_400)


def read(path):
    """Every file beside the store, with its bytes and times: what a command that only reads leaves alone."""
    return {file.name: (file.read_bytes(), file.stat().st_mtime_ns) for file in path.parent.iterdir()}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "device.db"


def take_part(path, rounds, *, price=TENTH, days_ago=0, period=None, first=1):
    day = today() - days_ago
    with Store.open(path) as opened:
        paid = LedgerStore(opened, Budget(1.0, 1e-6, period))
        for number in range(first, first + rounds):
            of = Round(SECRET, "linear", number, 7, 0)
            paid.write(Persist(of, Stage.ENTERED, b"\1" * 32), day=day)
            paid.write(Persist(of, Stage.MASKED, b"\1" * 32, b"a masked vector"), day=day, price=price)


def answer(path, number=1, *, unit=Unit.USER, epsilon=0.1, what="visited in June"):
    """As an earlier version charged for it."""
    with Store.open(path) as opened, opened.transaction() as rows:
        charge_answer(rows, number, loss=local_loss(epsilon, unit), what=what, day=today(), deployment=SECRET)


def test_the_ledger_says_what_was_spent_on_what_and_what_is_left(store):
    take_part(store, 4)
    answer(store)
    found = told("ledger", store)
    budget = {"epsilon": 1.0, "delta": 1e-6, "period_days": None, "unit": "user"}
    assert (found["budget"], found["counted_per"], found["period"]) == (budget, "user", None)
    assert [(item["what"], item["unit"], item["releases"]) for item in found["items"]] == [
        ("mixing of linear models", "user", 4),
        ("visited in June", "user", 1),
    ]
    assert found["lifetime"]["releases"] == 5
    alone = [item["epsilon"] for item in found["items"]]
    assert max(alone) < found["lifetime"]["epsilon"] < sum(alone)
    assert found["lifetime"]["epsilon_replace_one"] > found["lifetime"]["epsilon"]
    assert (found["nothing_left"], found["overspent"]) == (False, False)
    more, shown = found["items"][0]["more"], flat(call("ledger", store).stdout)
    assert f"mixing of linear models user 4 {alone[0]:.3f} - {more}" in shown
    assert f"visited in June user 1 {alone[1]:.3f} -" in shown  # no more answers are given
    assert more > 0
    take_part(store, more, first=5)
    with pytest.raises(PolicyError):  # so many more, and not one above
        take_part(store, 1, first=5 + more)
    spent = told("ledger", store)
    assert ([item["more"] for item in spent["items"]], spent["nothing_left"]) == ([0, None], True)


def test_answers_of_an_earlier_version_leave_less_for_sums(store):
    take_part(store, 1)
    before = told("ledger", store)["items"][0]["more"]
    answer(store, epsilon=0.4)
    found = told("ledger", store)
    sums, answers = found["items"]
    assert (0 < sums["more"] < before, answers["more"], found["overspent"]) == (True, None, False)
    answer(store, 2, epsilon=0.7)
    assert ([item["more"] for item in told("ledger", store)["items"]], told("ledger", store)["overspent"]) == (
        [0, None],
        True,
    )


def test_a_device_that_only_gave_answers_still_has_a_budget_for_sums(store):
    answer(store)
    found = told("ledger", store)
    assert ([item["more"] for item in found["items"]], found["nothing_left"]) == ([None], False)


def test_json_of_a_ledger_has_one_schema(store):
    with Store.open(store):
        pass
    empty = told("ledger", store)
    take_part(store, 1)
    spent = told("ledger", store, "--set", "privacy.period_days=7")
    names = "budget counted_per items lifetime period overspent covered_again_in_days nothing_left adjacency"
    names += " by_two_operators"
    assert empty.keys() == spent.keys() == set(names.split())
    assert spent["items"][0].keys() == {"what", "unit", "releases", "epsilon", "epsilon_at_worst", "more"}
    assert spent["lifetime"].keys() == spent["period"].keys()
    assert (empty["items"], empty["lifetime"]["epsilon"], empty["nothing_left"]) == ([], 0, False)


def test_with_nothing_left_the_device_still_recommends(store):
    take_part(store, 10)
    found = told("ledger", store)
    assert (found["nothing_left"], found["overspent"], found["covered_again_in_days"]) == (True, False, None)
    text = flat(call("ledger", store).stdout)
    assert "Nothing is left for any of these." in text
    assert "still downloads, trains locally and recommends" in text


def test_with_a_period_both_figures_and_the_end_of_the_wait_are_shown(store):
    take_part(store, 10, days_ago=100, period=30)
    take_part(store, 10, days_ago=10, period=30, first=11)
    found = told("ledger", store, "--set", "privacy.period_days=30")
    assert (found["period"]["days"], found["period"]["releases"], found["lifetime"]["releases"]) == (30, 10, 20)
    assert found["period"]["epsilon"] == pytest.approx(1)
    assert 1.3 < found["lifetime"]["epsilon"] < 2
    assert (found["nothing_left"], found["covered_again_in_days"]) == (True, 20)
    text = flat(call("ledger", store, "--set", "privacy.period_days=30").stdout)
    for total, when in ((found["lifetime"], "in all, ever 20"), (found["period"], "in the last 30 days 10")):
        assert f"{when} {total['epsilon']:.3f} {total['epsilon_replace_one']:.3f}" in text
    assert "covered again in 20 days" in text


def test_a_ledger_beyond_the_budget_of_the_settings_is_noted(store):
    take_part(store, 10)
    words = ("ledger", store, "--set", "privacy.epsilon_per_user=0.5")
    assert told(*words)["overspent"] is True
    assert shell.says(call(*words).stderr, messages.DEVICE_HAD_ANOTHER_BUDGET)


@pytest.mark.parametrize("unit", [Unit.EVENT, Unit.USER_DAY])
def test_what_was_counted_in_a_smaller_unit_is_not_passed_off_as_a_persons(store, unit):
    take_part(store, 1)
    answer(store, unit=unit)
    found, text = told("ledger", store), flat(call("ledger", store).stdout)
    assert (found["counted_per"], [item["unit"] for item in found["items"]]) == (unit, ["user", unit])
    assert [item["more"] for item in found["items"]] == [None, None]
    assert f"counted per {unit} only, which does not bound what is known about the person" in text


def test_the_ledger_shows_neither_deployment_nor_vector_and_moves_no_cursor(store):
    take_part(store, 1)
    answer(store, what="a\x1b[2Jb")
    shown = [call("ledger", store).stdout, call("ledger", store, "--json").stdout]
    for text in shown:
        assert not [word for word in ("deployment-42-xy", SECRET.hex(), "masked vector", "\x1b") if word in text]
    assert "a [2Jb" in shown[0]


def test_reading_changes_nothing(store):
    take_part(store, 2)
    store.chmod(0o400)
    before = read(store)
    told("ledger", store)
    assert read(store) == before


def test_a_device_in_the_middle_of_a_write_is_neither_disturbed_nor_waited_for(store):
    take_part(store, 2)
    script = Path(sys.executable).with_name("prirec")
    with Store.open(store) as opened:
        with opened.transaction() as rows:
            rows.execute(
                "INSERT INTO spending SELECT deployment, kind, 99, attempt, what, unit, day, grains, epsilon, delta, "
                "adjacency, at_worst FROM spending WHERE number = 1"
            )
            seal_ledger(rows, day=rows.execute("SELECT day FROM ledger_seal").fetchone()[0])
            done = subprocess.run(
                [script, "privacy", "ledger", store, "--json"], capture_output=True, text=True, timeout=60, check=False
            )
            assert (done.returncode, json.loads(done.stdout)["lifetime"]["releases"]) == (0, 2)
        assert len(LedgerStore(opened, Budget()).ledger().entries) == 3


def older(path):
    with Store.open(path, migrations=MIGRATIONS[:1]):
        pass


def newer(path):
    take_part(path, 1)
    with closing(sqlite3.connect(path)) as rows:
        rows.execute("PRAGMA user_version=99")


def foreign(path):
    with closing(sqlite3.connect(path)) as rows:
        rows.execute("PRAGMA journal_mode=WAL")
        rows.execute("CREATE TABLE secrets (word TEXT)")


def damaged(path):
    take_part(path, 2)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + os.urandom(4096) + whole[8192:])


def with_a_smaller_charge(path):
    """In which SQLite finds nothing wrong."""
    take_part(path, 2)
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute("DROP TRIGGER paid_is_paid")
        rows.execute("UPDATE spending SET grains = grains - 1")


def cut(path):
    take_part(path, 2)
    path.write_bytes(path.read_bytes()[:5000])


def left_in_the_middle(path):
    """As a device leaves it that is killed while it writes: the rollback journal is still there."""
    other = path.with_name("other.db")
    take_part(other, 1)
    with closing(sqlite3.connect(other, isolation_level=None)) as rows:
        rows.execute("PRAGMA cache_size=1")
        rows.execute("BEGIN IMMEDIATE")
        rows.execute(
            "INSERT INTO rounds SELECT deployment, kind, 9, 0, 0, 1, zeroblob(32), zeroblob(99999), 0 FROM rounds"
        )
        path.write_bytes(other.read_bytes())
        Path(f"{path}-journal").write_bytes(Path(f"{other}-journal").read_bytes())
        rows.execute("ROLLBACK")


BAD_STORES = {
    "missing": (lambda path: None, messages.NO_DEVICE_FILE),
    "a folder": (lambda path: path.mkdir(), messages.DEVICE_FILE_IS_A_FOLDER),
    "empty": (lambda path: path.touch(), messages.DEVICE_FILE_EMPTY),
    "text": (lambda path: path.write_text("u007,secret\n" * 20), messages.FILE_NOT_OURS),
    "foreign": (foreign, messages.FILE_NOT_OURS),
    "older": (older, messages.DEVICE_FILE_WITHOUT_A_LEDGER),
    "newer": (newer, messages.version_too_new(99, newest=len(MIGRATIONS))),
    "damaged": (damaged, messages.FILE_DAMAGED),
    "a smaller charge": (with_a_smaller_charge, messages.FILE_DAMAGED),
    "cut": (cut, messages.FILE_DAMAGED),
    "left in the middle": (left_in_the_middle, messages.DEVICE_FILE_LEFT_IN_A_WRITE),
}


@pytest.mark.parametrize("name", BAD_STORES)
def test_a_missing_foreign_or_damaged_file_is_a_state_error_and_unchanged(name, store):
    make, message = BAD_STORES[name]
    make(store)
    there = {} if name in ("missing", "a folder") else read(store)
    found = call("ledger", store)
    assert (found.exit_code, found.stdout) == (5, "")
    assert shell.says(found.stderr, message)
    assert len(found.stderr.splitlines()) == 1
    assert "secret" not in found.stderr
    assert {file.name for file in store.parent.iterdir() if file.is_file()} == there.keys()
    assert not there or read(store) == there


def test_settings_without_a_budget_have_no_ledger(store):
    take_part(store, 1)
    assert call("ledger", store, "--preset", "rounds").exit_code == 4
