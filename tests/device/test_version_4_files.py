"""A device's file of version 4, which could hold local answers: it opens, and what was paid for them still counts."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from prirec.device.ledger import LedgerStore, Price, ledger_in, load_budget
from prirec.device.person import Person
from prirec.device.store import MIGRATIONS, Store
from prirec.errors import PolicyError
from prirec.privacy.accountant import Adjacency, Spent, affordable
from prirec.privacy.ledger import Budget
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from support import messages
from support.journals import ONE, resent

RECORDED = Path(__file__).with_name("version_4.sql")
DAY = 20_700  # on which the recorded answer was charged
SECRET = bytes.fromhex("D0CE6AA92CCB0745C577C40C50CCB904D018EEF350AB540BF2946C9452E4FCE9")  # of the recorded answers
A_TENTH = Spent(affordable(1.0, 1e-6).grains // 10)


@pytest.fixture
def old(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as rows:
        rows.executescript(RECORDED.read_text(encoding="utf-8"))
    return path


def schema(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as rows:
        found = rows.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: " ".join(sql.split()) for name, sql in found}


def take_part(paid: LedgerStore, number: int, cost: Spent) -> None:
    of = Round(b"\1" * 16, "linear", number, 3, 0)
    paid.write(Persist(of, Stage.ENTERED, ONE), day=DAY)
    paid.write(Persist(of, Stage.MASKED, ONE, b"vector"), price=Price("mixing", cost), day=DAY)


def test_a_migrated_file_has_the_tables_of_a_new_one_and_its_copy_those_of_before(old: Path, tmp_path: Path) -> None:
    Store.open(old).close()
    Store.open(tmp_path / "new").close()
    assert schema(old) == schema(tmp_path / "new")
    assert not {"answers", "secrets"} & schema(old).keys()
    copy = old.with_name(f"{old.name}.version-4")
    with closing(sqlite3.connect(copy)) as rows:
        assert rows.execute("SELECT value FROM secrets").fetchall() == [(SECRET,)]
    assert SECRET in copy.read_bytes()
    assert SECRET not in old.read_bytes()
    with Store.open(copy) as store:  # the copy can be opened in its turn
        assert len(LedgerStore(store).ledger().entries) == 2


def test_a_migration_leaves_all_other_rows_unchanged(old: Path) -> None:
    with Store.open(old) as store:
        assert [visit.place for visit in Person(store).visits()] == ["a"]
        assert resent(store, Round(b"\1" * 16, "linear", 1, 3, 0)) == b"vector"
        with store.reading() as rows:
            assert load_budget(rows) == Budget(1.0, 1e-6)
        told = Person(store).export()
    assert [one["what"] for one in told["spent"]] == ["mixing", "answers about 2026-06-01 to 2026-06-30 (visited)"]
    assert "answers" not in told


def test_what_was_charged_for_an_answer_stays_in_the_ledger(old: Path) -> None:
    before = ledger_in(old)  # read without migrating
    with Store.open(old) as store:
        after = LedgerStore(store).ledger()
        told = LedgerStore(store).account(day=DAY)
    assert before == after == ledger_in(old)
    (loss,) = after.entries[1].charge.cost.local
    assert (loss.epsilon, loss.adjacency, after.entries[1].day) == (0.25, Adjacency.REPLACE_ONE, DAY)
    assert [(item.what, item.releases) for item in told.items] == [
        ("answers about 2026-06-01 to 2026-06-30 (visited)", 1),
        ("mixing", 1),
    ]
    assert told.lifetime.epsilon > 0.25


def test_an_answer_leaves_less_of_the_budget_for_sums(old: Path) -> None:
    left = affordable(1.0, 1e-6, local=0.25).grains - A_TENTH.grains
    assert left < affordable(1.0, 1e-6).grains - A_TENTH.grains
    with Store.open(old) as store:
        paid = LedgerStore(store)
        assert paid.how_many_more(A_TENTH, day=DAY) == left // A_TENTH.grains < 9
        with pytest.raises(PolicyError, match=messages.budget_exhausted("mixing")):
            take_part(paid, 2, Spent(left + 1))
        take_part(paid, 3, Spent(left))
        assert paid.how_many_more(Spent(1), day=DAY) == 0
        assert 0.999 < paid.account(day=DAY).lifetime.epsilon <= 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_files_from_before_answers_come_to_the_same_tables(path: Path, tmp_path: Path, version: int) -> None:
    Store.open(path, migrations=MIGRATIONS[:version]).close()
    Store.open(path).close()
    Store.open(tmp_path / "new").close()
    assert schema(path) == schema(tmp_path / "new")
