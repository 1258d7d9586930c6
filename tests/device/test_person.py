"""A person's own data on the device: kept as told, refused in words that repeat none of it, and erased when asked."""

import json
import math
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import Features
from prirec.device.ledger import LedgerStore, Price, save_budget, save_floor
from prirec.device.person import GivenValue, Person, Visit, context_from, refuse_unfit, to_json
from prirec.device.store import (
    MIGRATIONS,
    OF_DEPLOYMENT,
    OF_PERSON,
    Store,
    VisitContribution,
    save_documents,
    save_visit_contribution,
    save_zeros,
)
from prirec.errors import DataError, PrirecError, StateError, UsageError
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.accountant import Spent
from prirec.privacy.ledger import Budget
from support import messages
from support.cities import small_city
from support.device_city import membership
from support.journals import life
from support.version_4_charges import charge_answer

CANARY = "canary-4711"
KEPT = {
    "rounds",
    "spending",
    "ledger_seal",
    "budget",
    "own_floor",
}  # so that nothing is told twice, or beyond what the person allows


@pytest.fixture
def person(store: Store) -> Person:
    return Person(store)


@pytest.fixture
def again(path: Path, store: Store) -> Iterator[Person]:
    """The same file, opened a second time: what was written must be there for whoever comes next."""
    with Store.open(path) as opened:
        yield Person(opened)


# what describes the person


def test_a_profile_comes_back_as_it_was_set(person: Person, again: Person) -> None:
    person.set_profile({"age": 31, "gender": "female", "likes": ["tea", "books", "tea"], "debt": -0.1})
    assert again.profile() == {"age": 31.0, "debt": -0.1, "gender": "female", "likes": ("tea", "books")}


def test_a_value_is_changed_or_forgotten_by_itself(person: Person) -> None:
    person.set_profile({"age": 31, "gender": "female"})
    person.set_profile({"age": None, "gender": "other", "job": "baker"})
    assert person.profile() == {"gender": "other", "job": "baker"}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_come_back_to_the_bit(number: float) -> None:
    assert repr(context_from(to_json({"n": number}))) == repr({"n": number})  # a zero keeps its sign


def test_a_home_is_set_changed_and_deleted(person: Person, again: Person) -> None:
    assert person.home() is None
    person.set_home((35.5, -139.25))
    person.set_home((90, 180))
    assert again.home() == (90.0, 180.0)
    person.set_home(None)
    assert again.home() is None


@pytest.mark.parametrize(
    ("tell", "error"),
    [
        (lambda one: one.set_profile({"age": math.nan}), DataError),
        (lambda one: one.set_profile({"age": math.inf}), DataError),
        (lambda one: one.set_profile({"age": 10**400}), DataError),
        (lambda one: one.set_profile({"job": " "}), DataError),
        (lambda one: one.set_profile({"job": CANARY + "\ud800"}), DataError),
        (lambda one: one.set_profile({"job": CANARY * 1000}), DataError),
        (lambda one: one.set_profile({"likes": [CANARY, 3]}), DataError),
        (lambda one: one.set_profile({"likes": [CANARY] * 1001}), DataError),
        (lambda one: one.set_profile({"likes": {CANARY: 1}}), DataError),
        (lambda one: one.set_profile({"likes": CANARY.encode()}), DataError),
        (lambda one: one.set_profile({"": 1}), UsageError),
        (lambda one: one.set_profile({CANARY + "\udfff": 1}), UsageError),
        (lambda one: one.set_profile({7: CANARY}), UsageError),
        (lambda one: one.set_profile({"lat": 4711.0}), UsageError),
        (lambda one: one.set_profile({str(n): CANARY for n in range(1001)}), UsageError),
        (lambda one: one.set_profile({7: None}), UsageError),
        (lambda one: one.set_home((4711.0, 0.0)), DataError),
        (lambda one: one.set_home((0.0, 4711.0)), DataError),
        (lambda one: one.set_home((math.nan, 0.0)), DataError),
        (lambda one: one.set_home((CANARY, 0.0)), DataError),
        (lambda one: one.record_visit(""), UsageError),
        (lambda one: one.record_visit(CANARY + "\ud800"), UsageError),
        (lambda one: one.record_visit(4711), UsageError),
        (lambda one: one.record_visit(CANARY, time=4.711), DataError),
        (lambda one: one.record_visit(CANARY, time=4711 * 10**12), DataError),
        (lambda one: one.record_visit(CANARY, time=True), DataError),
        (lambda one: one.record_visit(CANARY, label=0), DataError),
        (lambda one: one.record_visit(CANARY, label=True), DataError),
        (lambda one: one.record_visit(CANARY, context={"mood": math.nan}), DataError),
        (lambda one: one.record_visit(CANARY, context={"label": CANARY}), UsageError),
        (lambda one: one.record_visit(CANARY, context=[CANARY]), UsageError),
        (lambda one: one.record_visit(CANARY, id=""), UsageError),
    ],
)
def test_invalid_values_are_refused_without_repeating_them(
    person: Person, tell: Callable[[Any], object], error: type[PrirecError]
) -> None:
    before = person.export()
    with pytest.raises(error) as caught:
        tell(person)
    assert "4711" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert person.export() == before


def test_a_bad_value_beside_good_ones_leaves_everything_as_it_was(person: Person) -> None:
    person.set_profile({"age": 31})
    with pytest.raises(DataError, match=messages.in_column("job", messages.WORD_BLANK_OR_TOO_LONG)):
        person.set_profile({"age": 32, "job": " "})
    assert person.profile() == {"age": 31.0}


# visits


def test_visits_come_by_time_and_then_as_they_came(person: Person, again: Person) -> None:
    for place, time in (("b", 20), ("a", 10), ("d", 20), ("c", None)):
        assert person.record_visit(place, time=time)
    assert [visit.place for visit in again.visits()] == ["c", "a", "b", "d"]


def test_a_visit_is_kept_whole(person: Person) -> None:
    context: dict[str, GivenValue] = {"mood": 0.5, "with": "friends", "ate": ["soup", "bread"]}
    person.record_visit("p1", time=-5, label=-1, context=context, id="mine")
    (one,) = person.visits()
    assert (one.place, one.time, one.label, one.id) == ("p1", -5, -1, "mine")
    assert dict(one.context) == {"mood": 0.5, "with": "friends", "ate": ("soup", "bread")}


def test_a_visit_recorded_again_is_kept_once(person: Person) -> None:
    assert person.record_visit("p1", time=10, context={"a": 1, "b": 2})
    assert not person.record_visit("p1", time=10, context={"b": 2, "a": 1})
    assert person.record_visit("p1", time=11)
    assert person.record_visit("p1")
    assert not person.record_visit("p1")
    assert person.record_visits([Visit("p1", id="x"), Visit("p2", id="y"), Visit("p2", id="y")]) == 2
    assert len(person.visits()) == 5


def test_an_id_stands_for_one_visit(person: Person) -> None:
    person.record_visit("p1", time=10, id="x")
    with pytest.raises(UsageError, match=messages.VISIT_ID_TAKEN) as caught:
        person.record_visits([Visit("p2", id="y"), Visit(CANARY, time=10, id="x")])
    assert CANARY not in str(caught.value)
    assert [visit.place for visit in person.visits()] == ["p1"]


def test_a_visit_is_not_described_by_what_the_device_works_out_itself() -> None:
    settings = Features(own_history=True)
    blocks = plan_encoding(small_city(), Popularity(), settings).context
    assert len(blocks) > 6
    for block in blocks:
        with pytest.raises(DataError, match=messages.in_column(block.column, messages.NOT_A_FEATURE)):
            refuse_unfit(blocks, [{block.column: 1.0}])


def test_a_visit_can_be_taken_back(person: Person) -> None:
    person.record_visit("p1", id="x")
    assert person.remove_visit("x")
    assert not person.remove_visit("x")
    assert person.visits() == ()


def test_a_visit_does_not_print_its_values() -> None:
    assert CANARY not in repr(Visit(CANARY, 4711, 1, {CANARY: CANARY}, CANARY))
    assert "4711" not in repr(Visit(CANARY, 4711))


def test_visits_are_labelled_if_so_declared_or_one_is_negative(person: Person) -> None:
    person.record_visit("p1")
    assert not person.labelled()
    person.record_visit("p2", label=-1)
    assert person.labelled()
    person.set_labelled(labelled=False)
    assert not person.labelled()
    person.set_labelled(labelled=True)
    person.remove_visit(person.visits()[1].id or "")
    assert person.labelled()


# all of it


def fill(person: Person) -> None:
    """Something in every table."""
    person.set_profile({"secret": CANARY})
    person.set_home((35.4711, 139.4711))
    person.record_visit(CANARY, context={"note": CANARY})
    person.set_labelled(labelled=False)
    person.join(membership())
    with person.store.transaction() as rows:
        save_visit_contribution(rows, b"\1" * 32, VisitContribution(np.array([4711]), np.array([3])))
        save_zeros(rows, life(1)[0].round, why="not in time")
        save_documents(rows, [b"a body", CANARY.encode()])
        rows.execute("INSERT INTO standing VALUES ('charter', ?)", (b"\2" * 32,))
        rows.execute("INSERT INTO regions VALUES (?)", (b"\3" * 8,))
        save_budget(rows, Budget())
        save_floor(rows, 4711)
    paid = LedgerStore(person.store, Budget())
    paid.write(life(1)[0], day=19_000)
    paid.write(life(1)[1], day=19_000, price=Price("mixing", Spent(7)))
    with person.store.transaction() as rows:
        charge_answer(rows, what="an answer", day=19_000)


def filled(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as rows:
        names = [name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: rows.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}  # noqa: S608


def test_an_export_holds_all_of_it_and_no_secret(person: Person) -> None:
    fill(person)
    told = json.loads(json.dumps(person.export()))
    assert told["profile"] == {"secret": CANARY}
    assert told["home"] == [35.4711, 139.4711]
    assert [(one["place"], one["context"]) for one in told["visits"]] == [(CANARY, {"note": CANARY})]
    assert told["membership"]["name"] == membership().name.hex()
    assert told["visits_in_sums"] == [{"campaign": "01" * 32, "places": [4711], "whole": [3]}]
    assert [one["what"] for one in told["spent"]] == ["mixing", "an answer"]
    assert [(one["number"], one["stage"]) for one in told["rounds"]] == [(1, "masked")]
    assert told["budget"]["epsilon_per_user"] == Budget().epsilon
    assert told["floor"] == 4711
    assert [(one["number"], one["why"]) for one in told["zeros"]] == [(1, "not in time")]
    assert told["regions"] == ["03" * 8]
    assert membership().secret.hex() not in json.dumps(told)


def test_an_export_speaks_of_every_table(path: Path, person: Person) -> None:
    fill(person)
    elsewhere = {"given": "visits_in_sums", "spending": "spent", "own_floor": "floor"}
    public = {"documents", "standing", "ledger_seal"}  # a checksum says nothing
    told = {elsewhere.get(name, name) for name in filled(path)} - public
    assert told == {name for name, what in person.export().items() if what is not None}


def test_an_export_of_an_empty_device_is_empty(person: Person) -> None:
    assert not any(person.export().values())


def test_forgetting_empties_all_but_the_journal_and_what_was_spent(path: Path, person: Person) -> None:
    fill(person)
    assert all(filled(path).values())
    person.forget()
    assert {name for name, many in filled(path).items() if many} == KEPT
    assert {name for name, many in filled(path).items() if not many} == {*OF_DEPLOYMENT, *OF_PERSON}


def test_what_was_forgotten_is_in_no_byte_of_the_folder(path: Path, person: Person) -> None:
    fill(person)
    assert CANARY.encode() in path.read_bytes()
    person.forget()
    person.store.close()
    for file in path.parent.iterdir():
        assert CANARY.encode() not in file.read_bytes()
        assert membership().secret not in file.read_bytes()


def test_forgetting_removes_the_copies_of_older_versions_and_no_other_file(path: Path, person: Person) -> None:
    fill(person)
    person.store.close()
    other = path.with_name("journal-of-a-friend.version-3")
    other.write_bytes(b"not ours")
    with Store.open(path, migrations=(*MIGRATIONS, ("CREATE TABLE later (one)",))) as newer:
        copy = path.with_name(f"journal.version-{len(MIGRATIONS)}")
        assert CANARY.encode() in copy.read_bytes()
        Person(newer).forget()
    assert {file.name for file in path.parent.iterdir()} == {path.name, other.name}


def test_a_copy_that_cannot_be_removed_is_named(path: Path, person: Person) -> None:
    path.with_name("journal.version-1").mkdir()
    with pytest.raises(StateError, match=messages.older_copy_not_removed("journal")):
        person.forget()


def test_leaving_keeps_the_persons_own_data(path: Path, person: Person) -> None:
    fill(person)
    person.leave()
    kept = {name for name, many in filled(path).items() if many}
    assert kept == {*OF_PERSON, *KEPT}
    person.join(membership(1))


def test_an_older_file_gets_the_new_tables_and_keeps_its_rounds(path: Path, tmp_path: Path) -> None:
    older = tmp_path / "older"
    with Store.open(older, migrations=MIGRATIONS[:2]) as store:
        store.write(life(1)[0])
    with Store.open(older) as store:
        Person(store).set_profile({"age": 31})
        assert store.entry(life(1)[0].round) is not None
    assert stat.S_IMODE(older.stat().st_mode) == 0o600


@pytest.mark.parametrize("table", ["profile", "visits"])
def test_a_row_that_nobody_wrote_is_damage_and_is_not_quoted(path: Path, person: Person, table: str) -> None:
    fill(person)
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        column = "value" if table == "profile" else "context"
        rows.execute(f"UPDATE {table} SET {column} = ?", (b"{" + CANARY.encode(),))  # noqa: S608
    with pytest.raises(StateError, match=messages.FILE_DAMAGED) as caught:
        person.export()
    assert CANARY not in str(caught.value)
