"""The ledger on disk: paid and masked together or not at all, whatever crashes; and nothing is masked unpaid."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from prirec.device.ledger import LedgerStore, Price, ledger_in, load_budget, pay, save_budget, save_floor
from prirec.device.store import MIGRATIONS, SEALED_SINCE, Store
from prirec.errors import PolicyError, StateError
from prirec.privacy.accountant import PrivacyLoss, Spent, Unit, affordable, local_loss
from prirec.privacy.ledger import Budget, Charge, Ledger, LedgerEntry
from prirec.protocols.journal import ConflictError
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from support import messages
from support.journals import resent
from support.processes import ends, start
from support.version_4_charges import charge_answer

ONE, OTHER = b"\1" * 32, b"\2" * 32
BUDGET = Budget(1.0, 1e-6)
PRICE = Price("mixing", Spent(affordable(1.0, 1e-6).grains // 3))  # three rounds


def of(number: int = 1, *, attempt: int = 0) -> Round:
    return Round(bytes(16), "moments", number, 3, attempt)


@pytest.fixture
def paid(store: Store) -> LedgerStore:
    return LedgerStore(store, BUDGET)


def take_part(paid: LedgerStore, number: int, *, attempt: int = 0, price: Price | None = PRICE, day: int = 100) -> None:
    paid.write(Persist(of(number, attempt=attempt), Stage.ENTERED, ONE), day=day)
    paid.write(Persist(of(number, attempt=attempt), Stage.MASKED, ONE, b"vector"), price=price, day=day)


def test_a_charge_is_kept_with_the_masked_vector(path: Path, paid: LedgerStore) -> None:
    take_part(paid, 1)
    with Store.open(path) as store:
        assert resent(store, of(1)) == b"vector"
        held = LedgerStore(store, BUDGET).ledger()
    assert held == Ledger((LedgerEntry(Charge(bytes(16), "moments", 1, 0, "mixing", PRICE.cost), 100),))


def test_every_kind_of_charge_comes_back_as_it_was(store: Store) -> None:
    most = Charge(b"\3" * 16, "moments", 0, 2, "mixing", Spent(2**62 - 1))  # no budget covers more
    daily, answer = local_loss(1e-3, Unit.USER_DAY), PrivacyLoss(0.1, Unit.USER, 1e-9)
    with store.transaction() as rows:
        pay(rows, most, budget=Budget(100.0, 0.5), day=7)
        charge_answer(rows, 1, loss=daily, what="in May", day=8)
        charge_answer(rows, 2, loss=answer, grains=5, day=9)
    assert LedgerStore(store).ledger() == Ledger(
        (
            LedgerEntry(most, 7),
            LedgerEntry(Charge(bytes(16), "visited", 1, 0, "in May", Spent(0, (daily,), Unit.USER_DAY)), 8),
            LedgerEntry(Charge(bytes(16), "visited", 2, 0, "visited in June", Spent(5, (answer,))), 9),
        )
    )


def test_entering_costs_nothing_and_masking_costs_once(paid: LedgerStore) -> None:
    paid.write(Persist(of(1), Stage.ENTERED, ONE), day=100, price=PRICE)
    assert paid.ledger() == Ledger()
    for _ in range(3):
        paid.write(Persist(of(1), Stage.MASKED, ONE, b"vector"), price=PRICE, day=100)
    for stage in (Stage.AGREED, Stage.REVEALED):
        paid.write(Persist(of(1), stage, ONE), day=100)
    assert len(paid.ledger().entries) == 1


def test_nothing_is_masked_without_a_price(paid: LedgerStore) -> None:
    with pytest.raises(PolicyError, match=messages.RELEASE_WITHOUT_A_PRICE):
        take_part(paid, 1, price=None)
    held = paid._store.entry(of(1))
    assert held is not None
    assert held.stage is Stage.ENTERED


def test_a_burnt_round_is_not_refunded(paid: LedgerStore) -> None:
    take_part(paid, 1)
    paid.write(Persist(of(1), Stage.BURNT, ONE), day=100)
    assert len(paid.ledger().entries) == 1
    assert paid.how_many_more(PRICE.cost, day=100) == 2


def test_an_attempt_that_masked_nothing_was_not_charged(paid: LedgerStore) -> None:
    paid.write(Persist(of(1), Stage.ENTERED, ONE), day=100)
    take_part(paid, 1, attempt=1)
    assert [one.charge.attempt for one in paid.ledger().entries] == [1]


def test_with_an_exhausted_budget_nothing_is_masked_and_all_else_works(paid: LedgerStore) -> None:
    for number in (1, 2, 3):
        take_part(paid, number)
    assert paid.how_many_more(PRICE.cost, day=100) == 0
    with pytest.raises(PolicyError, match=messages.budget_exhausted("mixing")) as refused:
        take_part(paid, 4)
    assert refused.value.exit_code == 4
    assert resent(paid._store, of(4)) is None
    assert resent(paid._store, of(3)) == b"vector"
    paid.write(Persist(of(3), Stage.MASKED, ONE, b"vector"), price=PRICE, day=100)  # the same again
    paid.write(Persist(of(3), Stage.AGREED, ONE), day=100)
    paid.write(Persist(of(4), Stage.BURNT, ONE), day=100)
    told = paid.account(day=100)
    assert told.lifetime.epsilon == pytest.approx(1.0, rel=1e-6)
    assert [(item.what, item.releases) for item in told.items] == [("mixing", 3)]


def test_a_refused_entry_of_the_journal_is_not_charged(paid: LedgerStore) -> None:
    with pytest.raises(StateError, match=messages.ROUND_NEVER_ENTERED):
        paid.write(Persist(of(1), Stage.MASKED, ONE, b"vector"), price=PRICE, day=100)
    assert paid.ledger() == Ledger()


def test_a_conflict_burns_the_round_and_keeps_the_charge(paid: LedgerStore) -> None:
    take_part(paid, 1)
    with pytest.raises(ConflictError):
        paid.write(Persist(of(1), Stage.MASKED, OTHER, b"another"), price=PRICE, day=100)
    held = paid._store.entry(of(1))
    assert held is not None
    assert held.stage is Stage.BURNT
    assert len(paid.ledger().entries) == 1


def test_a_lowered_budget_holds_at_once(store: Store) -> None:
    paid = LedgerStore(store)
    with store.transaction() as rows:
        save_budget(rows, Budget(50.0))
    before = paid.how_many_more(PRICE.cost, day=100)
    take_part(paid, 1)
    with store.transaction() as rows:
        save_budget(rows, Budget(1e-3))
    assert before > 1
    assert paid.how_many_more(PRICE.cost, day=100) == 0
    assert paid.account(day=100).budget.epsilon == 1e-3
    with pytest.raises(PolicyError):
        take_part(paid, 2)


def test_the_same_round_at_another_price_is_refused(paid: LedgerStore) -> None:
    take_part(paid, 1)
    with pytest.raises(StateError, match=messages.CHARGED_AT_ANOTHER_PRICE):
        paid.write(Persist(of(1), Stage.MASKED, ONE, b"vector"), price=Price("mixing", Spent(1)), day=100)
    assert len(paid.ledger().entries) == 1


@pytest.mark.parametrize("statement", ["DELETE FROM spending", "UPDATE spending SET grains = 0"])
def test_charges_cannot_be_deleted_or_changed(path: Path, paid: LedgerStore, statement: str) -> None:
    take_part(paid, 1)
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(
            sqlite3.IntegrityError, match=messages.any_of(messages.SPENT_ROW_DELETED, messages.PAID_ROW_CHANGED)
        ),
    ):
        connection.execute(statement)
    assert len(paid.ledger().entries) == 1


def test_a_journal_from_before_the_ledger_gets_one(path: Path) -> None:
    with Store.open(path, migrations=MIGRATIONS[:1]) as store:
        store.write(Persist(of(1), Stage.ENTERED, ONE))
    with Store.open(path) as store:
        paid = LedgerStore(store, BUDGET)
        assert paid.ledger() == Ledger()
        paid.write(Persist(of(1), Stage.MASKED, ONE, b"vector"), price=PRICE, day=100)
        assert len(paid.ledger().entries) == 1
    assert path.with_name("journal.version-1").exists()


KILLED = """
from prirec.device.ledger import LedgerStore, Price
from prirec.privacy.accountant import Spent, affordable
from prirec.privacy.ledger import Budget

budget, price = Budget(1.0, 1e-6), Price("mixing", Spent(affordable(1.0, 1e-6).grains // 3))

def writes(store):
    paid = LedgerStore(store, budget)
    for number in (1, 2):
        for stage in (Stage.ENTERED, Stage.MASKED, Stage.AGREED):
            yield paid.write(Persist(of(number), stage, ONE, b"v"), price=price, day=100)

outlive(lambda point: write_until(point, folder, writes), first=-6)
"""


def test_after_a_kill_at_any_point_what_is_masked_is_paid_for_and_what_is_paid_for_is_masked(tmp_path: Path) -> None:
    killed, survived = ends(start(KILLED, tmp_path))
    assert survived >= 6 * 4
    reached = set()
    for point in killed:
        told = len((tmp_path / f"told{point}").read_bytes())
        with Store.open(tmp_path / f"journal{point}") as store:
            paid = LedgerStore(store, BUDGET)
            charged = {one.charge.number for one in paid.ledger().entries}
            masked = {n for n in (1, 2) if (held := store.entry(of(n))) is not None and held.masked}
            assert charged == masked
            written = told + (point < 0)
            assert charged == {n for n in (1, 2) if written >= 3 * n - 1}  # nothing told is lost, nothing untold kept
            for number in charged - {n for n in (1, 2) if written >= 3 * n}:  # it goes on, and is not charged again
                paid.write(Persist(of(number), Stage.MASKED, ONE, b"v"), price=PRICE, day=100)
            assert len(paid.ledger().entries) == len(charged)
            reached.add((written, len(charged)))
    assert reached == {(0, 0), (1, 0), (2, 1), (3, 1), (4, 1), (5, 2), (6, 2)}


# damage


SPOILED = {
    "a smaller charge": "UPDATE spending SET grains = grains - 1 WHERE number = 2",
    "another day": "UPDATE spending SET day = day - 40",
    "one charge less": "DELETE FROM spending WHERE number = 3",
    "no charge at all": "DELETE FROM spending",
    "two charges exchanged": "UPDATE spending SET rowid = 9 - rowid",
    "no seal": "DELETE FROM ledger_seal",
    "a seal of another day": "UPDATE ledger_seal SET day = day - 40",
    "a larger budget": "UPDATE budget SET epsilon = epsilon * 2",
    "a shorter period": "UPDATE budget SET period_days = 1",
    "no budget of one's own": "DELETE FROM budget",
    "a lower floor": "UPDATE own_floor SET devices = devices - 1",
    "no floor of one's own": "DELETE FROM own_floor",
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_damaged_charge_budget_or_floor_is_noticed(path: Path, paid: LedgerStore, how: str) -> None:
    with paid._store.transaction() as rows:
        save_budget(rows, Budget(2.0, 1e-6, period_days=30))
        save_floor(rows, 500)
    for number in (1, 2, 3):
        take_part(paid, number)
    assert len(ledger_in(path).entries) == 3
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute("DROP TRIGGER spent_is_spent")
        rows.execute("DROP TRIGGER paid_is_paid")
        rows.execute(SPOILED[how])
    uses = (
        paid.ledger, lambda: paid.account(day=100), lambda: paid.how_many_more(PRICE.cost, day=100),
        lambda: paid.see(101), lambda: paid.write(Persist(of(4), Stage.ENTERED, ONE), day=100), lambda: ledger_in(path),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(StateError, match=messages.FILE_DAMAGED) as refused:
            use()
        assert refused.value.exit_code == 5
    assert paid._store.entry(of(4)) is None


def test_one_bit_of_a_charge_on_the_disk_is_noticed(path: Path, paid: LedgerStore) -> None:
    """SQLite itself finds nothing wrong with it."""
    take_part(paid, 1)
    paid._store.close()
    content = bytearray(path.read_bytes())
    at = content.index(b"mixing")
    content[at] ^= 1
    path.write_bytes(content)
    with Store.open(path) as store, pytest.raises(StateError, match=messages.FILE_DAMAGED):
        LedgerStore(store).ledger()
    with pytest.raises(StateError, match=messages.FILE_DAMAGED):
        ledger_in(path)


def test_a_ledger_without_a_seal_gets_one_when_its_file_is_migrated(path: Path) -> None:
    before = MIGRATIONS[: SEALED_SINCE - 1]
    with Store.open(path, migrations=before) as store, store.transaction() as rows:
        rows.execute(
            "INSERT INTO spending VALUES (zeroblob(16), 'linear', 1, 0, 'mixing', 'user', 90, 5, 0.0, 0.0, "
            "'a contribution or none', 0.0)"
        )
    old = ledger_in(path)
    assert len(old.entries) == 1
    with Store.open(path) as store:
        assert LedgerStore(store).ledger() == old == ledger_in(path)
    with Store.open(path) as store:
        assert LedgerStore(store).ledger() == old


@pytest.mark.parametrize("spoiled", [False, True])
def test_a_seal_of_version_7_knew_no_budget_and_is_checked_before_it_is_made_anew(path: Path, spoiled: bool) -> None:
    with Store.open(path, migrations=MIGRATIONS[:SEALED_SINCE]) as store:
        take_part(LedgerStore(store, BUDGET), 1)
        with store.transaction() as rows:
            rows.execute("INSERT INTO budget VALUES (1, 2.0, 1e-6, NULL)")
    old = ledger_in(path)
    if spoiled:
        with closing(sqlite3.connect(path)) as rows, rows:
            rows.execute("UPDATE ledger_seal SET day = day - 1")
        with pytest.raises(StateError, match=messages.FILE_DAMAGED):
            Store.open(path)
        return
    with Store.open(path) as store:
        assert LedgerStore(store).ledger() == old == ledger_in(path)
        with store.reading() as rows:
            assert load_budget(rows) == Budget(2.0, 1e-6)
    with closing(sqlite3.connect(path)) as rows, rows:
        rows.execute("UPDATE budget SET epsilon = 3.0")
    with pytest.raises(StateError, match=messages.FILE_DAMAGED):
        ledger_in(path)


# clocks


def monthly(store: Store) -> LedgerStore:
    return LedgerStore(store, Budget(1.0, 1e-6, period_days=30))


@pytest.mark.parametrize("seen_by", ["entering", "being online"])
def test_a_charge_under_a_clock_that_was_set_back_stays_in_its_period(store: Store, seen_by: str) -> None:
    paid = monthly(store)
    if seen_by == "entering":
        paid.write(Persist(of(1), Stage.ENTERED, ONE), day=1000)
    else:
        paid.see(1000)
    take_part(paid, 2, day=950)  # the clock was set back by 50 days
    assert [entry.day for entry in paid.ledger().entries] == [1000]
    whole = monthly(store).how_many_more(PRICE.cost, day=2000)
    for day in (951, 1000, 1029):  # and is right again
        assert paid.how_many_more(PRICE.cost, day=day) == whole - 1
    assert paid.how_many_more(PRICE.cost, day=1030) == whole


def test_a_clock_that_was_set_forward_and_back_makes_no_charge_vanish(store: Store) -> None:
    paid = monthly(store)
    take_part(paid, 1, day=1000)
    take_part(paid, 2, day=1050)
    take_part(paid, 3, day=1001)
    whole = monthly(store).how_many_more(PRICE.cost, day=5000)
    assert paid.how_many_more(PRICE.cost, day=1002) == whole - 3
