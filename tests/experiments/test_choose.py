"""Constants of the shared model are compared by changing one of them where it is read, and put back."""

from importlib import import_module
from typing import Any

import pytest

from prirec.config import load
from prirec_experiments import choose
from support.cities import small_city

CITY, SETTINGS = small_city(people=300, records=3000), load(changes={"floor": 50, "iterations": 3, "data.keep": "all"})


def held(where: str) -> Any:
    module, _, name = where.rpartition(".")
    return getattr(import_module(module), name)


def test_constants_are_put_back_after_a_failure_too() -> None:
    def failing() -> None:
        with choose.patched({choose.PACE: 7.0, choose.EQUAL_AT: 9}):
            raise ZeroDivisionError((held(choose.PACE), held(choose.EQUAL_AT)))

    with pytest.raises(ZeroDivisionError) as seen:
        failing()
    assert seen.value.args == ((7.0, 9),)
    assert (held(choose.PACE), held(choose.EQUAL_AT)) == (5.0, 1000)


@pytest.mark.parametrize("name", choose.VARIANTS)
def test_every_variant_makes_a_difference(name: str) -> None:
    """A constant that is read elsewhere, or compiled into a kernel, would make none."""
    usual, found = (choose.figure(CITY, SETTINGS, choose.VARIANTS[one]) for one in ("usual", name))
    assert (found == usual) is (name == "usual")


def test_the_table_has_a_row_for_each_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "cities", lambda data: [("small", CITY, {"floor": 50, "iterations": 2})])
    some = {name: choose.VARIANTS[name] for name in ("usual", "pace 3")}
    head, _, usual, changed = choose.rows(None, seeds=1, variants=some)
    assert head == "| | small | mean |"
    assert usual.startswith("| usual | 0.")
    assert changed.startswith("| pace 3 | ")


@pytest.mark.parametrize("name", choose.ALONE)
def test_every_variant_of_devices_alone_makes_a_difference(name: str) -> None:
    usual, found = (choose.figure_alone(CITY, SETTINGS, choose.ALONE[one]) for one in ("usual", name))
    assert (found == usual) is (name == "usual")


def test_lists_depend_on_where_popularity_is_cut_off() -> None:
    usual, nowhere, near = (choose.figure_of_lists(CITY, SETTINGS, {choose.POPULAR: at}) for at in (8.0, 1e6, 1.0))
    assert usual == nowhere == choose.figure_of_lists(CITY, SETTINGS, {})
    assert near != usual
