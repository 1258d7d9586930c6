"""What devices hand in, and what waits for them: for rounds that are open, each once, and for nobody else."""

import pytest

from prirec.errors import StateError
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from prirec.recommender import store as store_mail
from prirec.recommender.store import MOST_MESSAGES, PostedMessage, Store
from prirec.wire.http import QueuedMessage
from support import messages
from support.stores import ONE, enter, invite, name, of, said


def bodies(store: Store) -> list[bytes]:
    return [body for _, body in store.incoming(0, 1000)]


# Messages


def test_messages_come_in_the_order_in_which_they_were_handed_in(store: Store) -> None:
    enter(store, of())
    assert store.post_messages([said(2, b"a"), said(1, b"b")]) == [True, True]
    assert store.post_messages([said(1, b"c")]) == [True]
    numbers = [number for number, _ in store.incoming(0, 1000)]
    assert bodies(store) == [b"a", b"b", b"c"]
    assert numbers == sorted(set(numbers))


def test_the_conductor_reads_on_from_where_it_was(store: Store) -> None:
    enter(store, of())
    store.post_messages([said(at, bytes([at])) for at in range(7)])
    heard: list[bytes] = []
    after = 0
    while page := store.incoming(after, 3):
        heard += [body for _, body in page]
        after = page[-1][0]
    assert heard == [bytes([at]) for at in range(7)]
    store.post_messages([said(1, b"later")])
    assert [body for _, body in store.incoming(after, 3)] == [b"later"]


def test_only_what_is_for_an_open_round_is_taken(store: Store) -> None:
    enter(store, of(1), of(2), of(1, group=3), of(1, kind="moments"))
    store.write(Persist(of(1), Stage.BURNT, ONE))
    rounds = [of(1), of(2), of(3), of(2, attempt=1), of(2, group=1), of(1, group=3), of(2, kind="moments")]
    taken = store.post_messages([said(1, bytes([at]), to=one) for at, one in enumerate(rounds)])
    assert taken == [False, True, False, False, False, True, False]
    assert bodies(store) == [b"\1", b"\5"]


def test_only_those_who_were_invited_to_a_round_hand_in_messages_for_it(store: Store) -> None:
    enter(store, of())
    store.deliver([], persists=[Persist(of(group=1), Stage.ENTERED, ONE)])
    store.deliver([], inviting=[(name(7), of(group=1)), (name(200), of(group=1)), (name(7), of(group=1))])
    said_by = [said(7, b"a"), said(7, b"b", to=of(group=1)), said(8, b"c", to=of(group=1)), said(200, b"d")]
    assert store.post_messages(said_by) == [True, True, False, False]
    assert bodies(store) == [b"a", b"b"]


@pytest.mark.parametrize("many", [1, 2, 3, 255, 256, 257, 600])
def test_however_many_come_at_once_each_is_asked_for_by_name(store: Store, many: int) -> None:
    store.deliver([], persists=[Persist(of(), Stage.ENTERED, ONE)])
    invite(store, *(name(at) for at in range(0, many, 3)))
    taken = store.post_messages([said(at, b"keys") for at in range(many)])
    assert taken == [at % 3 == 0 for at in range(many)]
    assert len(bodies(store)) == sum(taken)


def test_an_invitation_ends_with_its_round_and_with_its_attempt(store: Store) -> None:
    enter(store, of(1), of(2))
    store.deliver([], persists=[Persist(of(2, attempt=1), Stage.ENTERED, ONE), Persist(of(1), Stage.BURNT, ONE)])
    assert store.post_messages([said(1, b"a", to=of(2, attempt=1))]) == [False]
    with store._database.reading() as rows:
        assert rows.one("SELECT count(*) FROM invited") == (0,)
    with pytest.raises(StateError, match=messages.MESSAGE_OUTSIDE_AN_OPEN_ROUND):
        invite(store, name(1), to=of(1))


def test_a_round_of_another_deployment_is_not_open(store: Store) -> None:
    enter(store, of())
    other = type(of())(b"x" * 16, "interaction", 1)
    assert store.post_messages([said(1, b"a", to=other)]) == [False]


def test_a_repeated_message_is_stored_once_and_acknowledged(store: Store) -> None:
    enter(store, of())
    assert store.post_messages([said(1, b"keys"), said(1, b"keys")]) == [True, True]
    assert store.post_messages([said(1, b"keys"), said(2, b"keys")]) == [True, True]
    assert bodies(store) == [b"keys", b"keys"]  # of two senders


def test_two_different_messages_are_both_kept_for_the_collector_to_judge(store: Store) -> None:
    enter(store, of())
    store.post_messages([said(1, b"keys"), said(1, b"other keys")])
    assert bodies(store) == [b"keys", b"other keys"]


def test_nobody_can_fill_the_store_with_different_messages(store: Store) -> None:
    enter(store, of(), of(1, group=1))
    store.post_messages([said(1, bytes([at])) for at in range(10)])
    store.post_messages([said(1, bytes([at])) for at in range(10, 100)])
    store.post_messages([said(2, b"somebody else"), said(1, b"elsewhere", to=of(1, group=1))])
    assert bodies(store) == [*(bytes([at]) for at in range(MOST_MESSAGES)), b"somebody else", b"elsewhere"]


def test_large_messages_are_looked_at_a_few_at_a_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_mail, "MOST_BYTES", 100)
    enter(store, of())
    sizes = [40, 50, 20, 300, 90, 10, 1]
    store.post_messages([said(at, bytes(size)) for at, size in enumerate(sizes)])
    looked, after = list[list[int]](), 0
    while came := store.incoming(after, 2):
        looked.append([len(body) for _, body in came])
        after = came[-1][0]
    assert looked == [[40, 50], [20], [300], [90, 10], [1]]


def test_refused_messages_take_no_number_and_no_messages_store_nothing(store: Store) -> None:
    assert store.post_messages([]) == []
    assert store.post_messages([said(1, b"a", to=of(9))]) == [False]
    enter(store, of())
    store.post_messages([said(1, b"a")])
    assert store.incoming(0, 9) == [(1, b"a")]


def test_a_message_does_not_print(store: Store) -> None:
    assert "sealed" not in repr(PostedMessage(of(), name(1), b"sealed"))


# Messages


def test_a_message_is_for_its_receiver_alone(store: Store) -> None:
    enter(store, of())
    store.deliver([(name(1), of(), b"a"), (name(2), of(), b"b"), (name(1), of(), b"c")])
    assert store.queued(name(1), 0, 9) == [QueuedMessage(1, b"a"), QueuedMessage(3, b"c")]
    assert store.queued(name(2), 0, 9) == [QueuedMessage(2, b"b")]
    assert store.queued(name(3), 0, 9) == []


def test_messages_are_read_on_from_the_last_one(store: Store) -> None:
    enter(store, of())
    store.deliver([(name(1), of(), bytes([at])) for at in range(5)])
    assert [one.body for one in store.queued(name(1), 2, 2)] == [b"\2", b"\3"]
    assert [one.body for one in store.queued(name(1), 4, 9)] == [b"\4"]
    assert store.queued(name(1), 5, 9) == []


def test_acknowledged_messages_are_deleted_and_no_others(store: Store) -> None:
    enter(store, of())
    store.deliver([(name(at % 2), of(), bytes([at])) for at in range(6)])
    store.post_messages([], arrived=[(name(0), 3)])
    assert [one.number for one in store.queued(name(0), 0, 9)] == [5]
    assert [one.number for one in store.queued(name(1), 0, 9)] == [2, 4, 6]
    store.post_messages([], arrived=[(name(0), 3)])
    assert store.counts().queued == 4


def test_acknowledged_messages_are_deleted_in_the_transaction_that_stores_messages(store: Store) -> None:
    enter(store, of())
    store.deliver([(name(at % 3), of(), bytes([at])) for at in range(6)])
    taken = store.post_messages([said(1, b"a"), said(1, b"b", to=of(7))], arrived=[(name(0), 9), (name(1), 2)])
    assert taken == [True, False]
    assert store.queued(name(0), 0, 9) == []
    assert [one.number for one in store.queued(name(1), 0, 9)] == [5]
    assert len(store.queued(name(2), 0, 9)) == 2
    assert store.post_messages([], arrived=[(name(2), 9)]) == []
    assert store.queued(name(2), 0, 9) == []


@pytest.mark.parametrize("over", [of(9), of(1), of(2, attempt=1)])
def test_nothing_is_delivered_where_one_of_the_rounds_is_not_open(store: Store, over: Round) -> None:
    enter(store, of(1), of(2))
    store.write(Persist(of(1), Stage.OPENED, ONE))
    with pytest.raises(StateError, match=messages.MESSAGE_OUTSIDE_AN_OPEN_ROUND):
        store.deliver([(name(1), of(2), b"a"), (name(1), over, b"b")])
    assert store.queued(name(1), 0, 9) == []
    store.deliver([(name(1), of(2), b"a")])
    assert store.queued(name(1), 0, 9) == [QueuedMessage(1, b"a")]


def test_messages_follow_what_must_be_in_the_journal_before_them(store: Store) -> None:
    store.deliver([(name(1), of(), b"invitation")], persists=[Persist(of(), Stage.ENTERED, ONE)])
    assert store.open_rounds() == [of()]
    assert len(store.queued(name(1), 0, 9)) == 1
    with pytest.raises(StateError, match=messages.settled_otherwise("its stage ENTERED")):
        store.deliver([(name(1), of(), b"another")], persists=[Persist(of(), Stage.ENTERED, name(7))])
    assert store.open_rounds() == []
    assert store.queued(name(1), 0, 9) == []
    store.deliver([], persists=[Persist(of(2), Stage.ENTERED, ONE)])
    assert store.open_rounds() == [of(2)]


def test_pollers_are_woken_for_messages_since_they_last_looked(store: Store) -> None:
    assert store.receivers_since(0) == (0, set())
    enter(store, of())
    store.deliver([(name(1), of(), b"a"), (name(2), of(), b"b"), (name(1), of(), b"c")])
    assert store.receivers_since(0) == (3, {name(1), name(2)})
    assert store.receivers_since(2) == (3, {name(1)})
    assert store.receivers_since(3) == (3, set())
    store.deliver([(name(3), of(), b"d")])
    assert store.receivers_since(3) == (4, {name(3)})
    store.deliver([])
    assert store.receivers_since(4) == (4, set())


def test_a_number_is_given_once_even_when_its_message_or_message_is_gone(store: Store, url: str) -> None:
    enter(store, of())
    store.deliver([(name(1), of(), b"a")] * 3)
    store.post_messages([said(1, b"a"), said(2, b"a")])
    store.post_messages([], arrived=[(name(1), 3)])
    store.advance(progress=None, over=[of()])
    store.close()
    with Store.open(url) as again:
        again.deliver([(name(1), of(), b"b")], inviting=[(name(1), of())])
        again.post_messages([said(1, b"b")])
        assert again.queued(name(1), 0, 9) == [QueuedMessage(4, b"b")]
        assert again.incoming(0, 9) == [(3, b"b")]
        assert again.receivers_since(0) == (4, {name(1)})
