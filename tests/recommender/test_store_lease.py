"""One worker conducts: a lease is held by one, runs out by the database's clock, and without it nothing is written."""

from collections.abc import Callable

import pytest

from prirec.errors import StateError
from prirec.protocols.party import Persist, Stage
from prirec.recommender.store import LeaseLostError, Store
from support import messages
from support.stores import ONE, enter, everything, name, of
from support.waiting import until

FIRST, SECOND = b"first worker", b"second worker"


def test_while_one_conducts_no_other_does(store: Store, url: str) -> None:
    assert store.lease(FIRST, 60)
    with Store.open(url) as other:
        assert not other.lease(SECOND, 60)
        assert store.lease(FIRST, 60)  # renewed
        assert not other.lease(SECOND, 60)


def test_a_lease_that_ran_out_is_anybodys(store: Store) -> None:
    assert store.lease(FIRST, 0.1)
    until(lambda: store.lease(SECOND, 60))
    assert not store.lease(FIRST, 60)


def test_renewing_a_lease_extends_it_from_now_on(store: Store) -> None:
    assert store.lease(FIRST, 60)
    assert store.lease(FIRST, 0.1)
    until(lambda: store.lease(SECOND, 60))


def test_a_lease_from_before_the_clock_was_set_back_binds_nobody(store: Store) -> None:
    assert store.lease(FIRST, 86_400)  # as if the clock had been a day ahead
    assert store.lease(SECOND, 15)
    assert not store.lease(FIRST, 15)


def test_a_lease_is_given_back_by_its_holder_alone(store: Store) -> None:
    assert store.lease(FIRST, 60)
    store.release(SECOND)
    assert not store.lease(SECOND, 60)
    store.release(FIRST)
    assert store.lease(SECOND, 60)


WRITES: dict[str, Callable[[Store], object]] = {
    "write": lambda store: store.write(Persist(of(), Stage.BURNT, ONE), holder=FIRST),
    "deliver": lambda store: store.deliver([(name(1), of(), b"late")], holder=FIRST),
    "advance": lambda store: store.advance(progress=b"late", holder=FIRST),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_lost_its_lease_unnoticed_writes_nothing(store: Store, write: str) -> None:
    enter(store, of())
    store.lease(FIRST, 0)
    store.lease(SECOND, 60)
    before = everything(store)
    with pytest.raises(LeaseLostError, match=messages.LEASE_LOST) as caught:
        WRITES[write](store)
    assert isinstance(caught.value, StateError)
    assert everything(store) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_whose_lease_ran_out_goes_on_if_nobody_took_it(store: Store, write: str) -> None:
    enter(store, of())
    store.lease(FIRST, 0)
    before = everything(store)
    WRITES[write](store)
    assert everything(store) != before


def test_a_worker_without_a_lease_writes_nothing(store: Store) -> None:
    with pytest.raises(LeaseLostError):
        store.advance(progress=b"", holder=FIRST)
