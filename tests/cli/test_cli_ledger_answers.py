"""prirec privacy ledger and plan where a part of the budget is for answers about windows of days."""

from functools import partial

import numpy as np
import pytest

from prirec.device.answers import AnsweringStore
from prirec.device.store import Store
from prirec.privacy.answers import Asked
from prirec.privacy.ledger import Budget
from prirec.privacy.memo import Question
from prirec.privacy.randomized_response import RandomizedResponse
from support import shell
from support.shell import flat

JUNE, JULY = Question("visited", 20_605, 20_634), Question("visited", 20_635, 20_665)  # of 2026
PURSE = ("--set", "privacy.epsilon_per_user=2", "--set", "privacy.local=1")
call, told = partial(shell.call, "privacy"), partial(shell.told, "privacy")


@pytest.fixture
def store(tmp_path):
    """A device that was asked about June, again, about June with a place more, and about July."""
    path, places = tmp_path / "device.db", tuple("abcdefgh")
    with Store.open(path) as opened:
        answering = AnsweringStore(opened, Budget(2.0, 1e-6, local=1.0))
        for question, asked in ((JUNE, places[:7]), (JUNE, places[:7]), (JUNE, places), (JULY, places)):
            of = Asked(bytes(16), question, asked, RandomizedResponse(0.03125))
            answering.answer(of, np.zeros(len(asked), dtype=bool), day=20_700)
    return path


def test_each_window_is_a_line_with_its_unit_and_price(store):
    found = told("ledger", store, *PURSE)
    assert [(item["what"], item["unit"], item["releases"]) for item in found["items"]] == [
        ("answers about 2026-06-01 to 2026-06-30 (visited)", "user", 2),
        ("answers about 2026-07-01 to 2026-07-31 (visited)", "user", 1),
    ]
    june, july = (item["epsilon"] for item in found["items"])
    assert (june, july) == (pytest.approx(15 * 0.03125, rel=1e-3), pytest.approx(0.25, rel=1e-3))
    assert found["lifetime"]["releases"] == 3
    assert [item["more"] for item in found["items"]] == [1, 1]  # of 1, 23/32 are spent
    assert (found["overspent"], found["budget"]["local"]) == (False, 1.0)


def test_the_table_fits_and_the_purse_is_told(store):
    shown = call("ledger", store, *PURSE)
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())
    text = flat(shown.stdout)
    assert "2026-07-31 (visited)" in text
    assert "Answers have 1 of that epsilon, and sums the rest." in text
    assert "Answers have" not in flat(call("ledger", store).stdout)  # of the usual budget they have nothing


def test_answers_that_the_named_budget_has_no_purse_for_are_overspent(store):
    assert told("ledger", store)["overspent"] is True


def test_nothing_of_the_answers_themselves_is_shown(store):
    before = store.read_bytes()
    with Store.open(store) as opened, opened.reading() as rows:
        secret = rows.execute("SELECT value FROM secrets").fetchone()[0]
    shown = call("ledger", store, *PURSE).stdout + call("ledger", store, *PURSE, "--json").stdout
    assert secret.hex() not in shown
    assert store.read_bytes() == before


def test_what_a_plan_promises_covers_the_purse_for_answers_too():
    size = ("plan", "--people", 20_000, "--places", 100)
    with_answers, without = (told(*size, *more) for more in (("--set", "privacy.local=0.4"), ()))
    assert [found["terms"][0]["epsilon"] for found in (with_answers, without)] == [
        pytest.approx(1, rel=1e-6),
        pytest.approx(1, rel=1e-6),
    ]
    noisier = [found["sums"][0]["noise_multiplier"] for found in (with_answers, without)]
    assert noisier[0] > 1.2 * noisier[1]  # sums have the rest
    shown = flat(call(*size, "--set", "privacy.local=0.4").stdout)
    assert "promised to each person, for sums and answers" in shown
    assert "for all sums together" in flat(call(*size).stdout)


def test_answers_in_every_period_add_up():
    size = ("plan", "--people", 20_000, "--places", 100, "--set", "privacy.period_days=30")
    some, none = (told(*size, *more)["terms"][1]["epsilon"] for more in (("--set", "privacy.local=0.9"), ()))
    assert some > 1.5 * none  # 13 times 0.9 is hardly less together; noise in sums adds up by its square
