"""The journal on disk keeps what was written, in one transaction with whatever joins it, and undoes both together."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from prirec.device.store import Store, write_journal
from prirec.errors import StateError
from prirec.protocols.journal import LIFE, ConflictError, JournalEntry, Verdict, admit, entry
from prirec.protocols.party import Persist, Stage
from support import messages
from support.journals import LEDGER, ONE, OTHER, VECTOR, after, charges, holds, last_number, life, of, resent


def test_what_was_written_is_there_after_opening_again(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
    with Store.open(path) as store:
        held = store.entry(of(1))
    assert held == JournalEntry(of(1), Stage.MASKED, OTHER, VECTOR * 500, masked=True)


def test_a_write_answers_with_what_is_then_held(store: Store) -> None:
    for number in (1, 2):
        for at, one in enumerate(life(number)):
            assert store.write(one) == after(life(number)[: at + 1])[number] == store.entry(one.round)


def test_a_round_that_was_never_entered_has_no_entry(store: Store) -> None:
    assert (store.entry(of(1)), last_number(store, bytes(16), "moments"), resent(store, of(1))) == (None, None, None)


def test_the_last_number_is_of_one_deployment_and_kind(store: Store) -> None:
    for number in (2, 9):
        store.write(Persist(of(number), Stage.ENTERED, ONE))
    store.write(Persist(of(4, kind="interaction"), Stage.ENTERED, ONE))
    assert last_number(store, bytes(16), "moments") == 9
    assert last_number(store, bytes(16), "interaction") == 4
    assert last_number(store, b"\1" * 16, "moments") is None


def test_an_entry_tells_which_attempt_and_cohort_it_is_of(store: Store) -> None:
    store.write(Persist(of(attempt=0, group=7), Stage.ENTERED, ONE))
    store.write(Persist(of(attempt=2, group=8), Stage.ENTERED, ONE))
    held = store.entry(of(attempt=0, group=7))
    assert held is not None
    assert held.round == of(attempt=2, group=8)


def test_a_masked_vector_is_sent_again_bit_for_bit(path: Path) -> None:
    with Store.open(path) as store:
        store.write(Persist(of(), Stage.ENTERED, ONE, b"not a vector"))
        assert resent(store, of()) is None
        store.write(Persist(of(), Stage.MASKED, ONE, VECTOR))
    with Store.open(path) as store:
        assert resent(store, of()) == VECTOR
        assert resent(store, of(attempt=1)) is None
        store.write(Persist(of(), Stage.MASKED, ONE, b"another"))
        assert resent(store, of()) == VECTOR


@pytest.mark.parametrize("end", [Stage.OPENED, Stage.BURNT])
def test_a_round_that_is_over_leaves_no_vector_behind(path: Path, end: Stage) -> None:
    with Store.open(path) as store:
        for one in life(1)[:4]:
            store.write(one)
        store.write(Persist(of(1), end, ONE))
        assert resent(store, of(1)) is None
    assert VECTOR not in path.read_bytes()


def test_a_masked_round_is_not_entered_anew_after_a_restart(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
        store.write(Persist(of(1), Stage.BURNT, ONE))
    with Store.open(path) as store, pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        store.write(Persist(of(1, attempt=1), Stage.ENTERED, ONE))


def test_a_conflict_burns_the_round_for_good(path: Path) -> None:
    with Store.open(path) as store:
        for one in life(1)[:2]:
            store.write(one)
        with pytest.raises(ConflictError, match=messages.settled_otherwise("its stage MASKED")):
            store.write(Persist(of(1), Stage.MASKED, ONE, b"another vector"))
    with Store.open(path) as store:
        assert store.entry(of(1)) == JournalEntry(of(1), Stage.BURNT, bytes(32), b"", masked=True)
        assert resent(store, of(1)) is None


def test_a_conflict_over_an_opened_sum_leaves_it_opened(store: Store) -> None:
    for one in life(1):
        store.write(one)
    with pytest.raises(ConflictError):
        store.write(Persist(of(1), Stage.OPENED, OTHER))
    assert store.entry(of(1)) == after(life(1))[1]


def test_a_refused_write_changes_nothing(store: Store) -> None:
    store.write(life(1)[0])
    with pytest.raises(StateError, match=messages.stage_does_not_follow("ENTERED", "REVEALED")):
        store.write(Persist(of(1), Stage.REVEALED, ONE))
    assert holds(store, range(9)) == after(life(1)[:1])


class TwinJournals(RuleBasedStateMachine):
    """The file, closed and opened at whim, against the rules kept in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.store = Store.open(Path(self.folder.name) / "journal")
        self.held: dict[int, JournalEntry] = {}

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store.open(Path(self.folder.name) / "journal")

    @rule(
        number=st.integers(0, 2),
        attempt=st.integers(0, 1),
        stage=st.sampled_from(Stage),
        digest=st.sampled_from([ONE, OTHER]),
        payload=st.binary(max_size=3),
    )
    def write(self, number: int, attempt: int, stage: Stage, digest: bytes, payload: bytes) -> None:
        wanted = Persist(of(number, attempt=attempt), stage, digest, payload)
        held, last = self.held.get(number), max(self.held, default=None)
        try:
            verdict = admit(wanted, held=held, last=last)
        except StateError as refused:
            with pytest.raises(type(refused)):
                self.store.write(wanted)
            if isinstance(refused, ConflictError) and held is not None and Stage.BURNT in LIFE[held.stage]:
                self.held[number] = entry(Persist(wanted.round, Stage.BURNT, bytes(32)), held=held)
        else:
            if verdict is Verdict.WRITE:
                self.held[number] = entry(wanted, held=held)
            assert self.store.write(wanted) == self.held[number]
        assert holds(self.store, range(3)) == self.held
        assert last_number(self.store, bytes(16), "moments") == max(self.held, default=None)

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TwinJournals.TestCase.settings = settings(max_examples=25, stateful_step_count=30)
TestTwinJournals = TwinJournals.TestCase


# One transaction for the journal and whatever joins it


def charge(store: Store, wanted: Persist, *, amount: int | None = 1) -> JournalEntry:
    """As a ledger will: the charge and the entry together."""
    with store.transaction() as rows:
        rows.execute("INSERT INTO charges VALUES (?)", (amount,))
        return write_journal(rows, wanted)


def test_what_joins_the_transaction_is_written_with_the_journal(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        charge(store, life(1)[0])
        assert (charges(store), holds(store, range(9))) == (1, after(life(1)[:1]))


def test_what_joins_a_refused_transaction_is_not_written(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        with pytest.raises(StateError, match=messages.ROUND_NEVER_ENTERED):
            charge(store, life(1)[1])
        assert (charges(store), holds(store, range(9))) == (0, {})


def test_a_conflict_undoes_what_joined_it_and_burns_the_round(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        store.write(life(1)[0])
        with pytest.raises(ConflictError):
            charge(store, Persist(of(1), Stage.ENTERED, OTHER))
        assert charges(store) == 0
        held = store.entry(of(1))
        assert held is not None
        assert held.stage is Stage.BURNT


def test_an_error_in_joined_rows_is_reported_without_their_contents(path: Path) -> None:
    with Store.open(path, migrations=LEDGER) as store:
        with pytest.raises(StateError, match=messages.store_unusable("SQLITE_CONSTRAINT_NOTNULL")) as caught:
            charge(store, Persist(of(1), Stage.ENTERED, ONE, VECTOR), amount=None)
        assert caught.value.__cause__ is None
        assert "vector" not in str(caught.value)
        assert store.entry(of(1)) is None
