"""What a helper does not sign, and what either operator does not believe of the other."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from prirec.errors import Fault, PeerError, PolicyError, UsageError
from prirec.protocols.codec import encode
from prirec.recommender.helper import HelperService
from prirec.recommender.operator import end_campaign, found_helper, sign_entries
from prirec.recommender.peer import Peer
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import Charter, Document, Model, Names, Subject, Window, read, written
from prirec.wire.operators import (
    SKEW,
    BoxKey,
    Envelope,
    Follow,
    Followed,
    Missing,
    NewBoxKey,
    Put,
    Said,
    Say,
    Taken,
    check_envelope,
    read_operator_answer,
    read_operator_request,
    sealed,
)
from support import messages
from support.low_floors import low_floor
from support.operator_pair import NOW, OperatorPair, person

DEPLOYMENT, ME, PEER = b"\7" * 16, SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


@pytest.fixture
def pair(tmp_path: Path) -> OperatorPair:
    made = OperatorPair(tmp_path)
    made.begin()
    made.run()
    return made


def publish(pair: OperatorPair, subject: Subject, document: Document) -> None:
    """Whatever a dishonest recommender signs."""
    page = written(document)
    entries = sign_entries(pair.leading.founding(), [(subject, page[0])])
    pair.leading.advance(progress=None, entries=entries, documents=[page])


def assert_not_signed(
    pair: OperatorPair, subject: Subject, document: Document, words: str = messages.NOT_SIGNED
) -> None:
    before = pair.helping.head(), pair.helping.progress()
    publish(pair, subject, document)
    with pytest.raises(PeerError, match=words):
        pair.peer.follow()
    assert (pair.helping.head(), pair.helping.progress()) == before


def changed(**changes: object) -> Callable[[OperatorPair], Window]:
    return lambda pair: msgspec.structs.replace(pair.window, **changes)


# The log


@pytest.mark.parametrize("subject", ["edition", "scales", "model", "publication"])
def test_nothing_is_signed_that_does_not_follow_from_the_sums(pair: OperatorPair, subject: Subject) -> None:
    words = messages.DECODE if subject == "edition" else messages.NOT_SIGNED
    assert_not_signed(pair, subject, Model(bytes(32), 0, b""), words)


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        ("joined", (person(0).public,)),  # has joined already
        ("joined", (person(50).public, person(50).public)),
        ("left", (person(50).public,)),  # was never there
    ],
)
def test_lists_of_people_are_possible(pair: OperatorPair, subject: Subject, names: tuple[bytes, ...]) -> None:
    assert_not_signed(pair, subject, Names(names), messages.IMPOSSIBLE_LIST)


@pytest.mark.parametrize(
    "window",
    [
        changed(people=7),
        changed(listed=bytes(32)),
        changed(opens=0),
        changed(closes=0),
        changed(model=bytes(32)),
        changed(number=1),
        changed(kind="moments"),
        changed(charter=bytes(32)),
    ],
)  # fmt: skip
def test_of_an_extended_window_nothing_changes_but_when_it_closes(
    pair: OperatorPair, window: Callable[[OperatorPair], Window]
) -> None:
    assert_not_signed(pair, "window", window(pair))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"people": 7}, messages.NOT_SIGNED),
        ({"listed": bytes(32)}, messages.NOT_SIGNED),
        ({"entries": 10**6}, messages.NOT_SIGNED),
        ({"entries": 0}, messages.NOT_SIGNED),
        ({"closes": 0}, messages.NOT_SIGNED),
        ({"opens": int(NOW) + 10**6, "closes": int(NOW) + 2 * 10**6}, messages.NOT_SIGNED),
        ({"model": bytes(32)}, messages.PARAMS_MISMATCH),
        ({"kind": "moments"}, messages.ORDER),
        ({"number": 1}, messages.ORDER),
    ],
)
def test_a_window_is_of_the_sum_that_the_campaign_is_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], words: str
) -> None:
    pair = OperatorPair(tmp_path)
    pair.begin()
    opening = pair.conductor._write_window
    monkeypatch.setattr(
        pair.conductor,
        "_write_window",
        lambda progress, window, attempt: opening(
            progress, msgspec.structs.replace(window, **changes), attempt=attempt
        ),
    )
    pair.conductor.tick()
    with pytest.raises(PeerError, match=words):
        pair.conductor.tick()
    assert not pair.state(pair.helping).window


@pytest.mark.parametrize(
    "changes",
    [
        {"helper_box": ME.public}, {"helper": ME.public}, {"recommender": ME.public}, {"campaign": 7},
        {"manifest": bytes(32)}, {"places": 7}, {"deployment": bytes(16)},
    ],
)  # fmt: skip
def test_a_charter_is_for_this_helpers_key_and_the_catalogue_that_it_knows(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    pair = OperatorPair(tmp_path)
    charter = pair.begin()
    last = pair.leading.last("charter")
    assert last is not None
    true = read(Charter, pair.fetch(last.document), name=last.document)
    assert true == charter
    entry = pair.leading.entries(last.index)[0].entry
    page = written(msgspec.structs.replace(true, **changes))
    forged = pair.leading.entries(0)[: last.index]
    pair.peer.ask(Follow(tuple(forged)), Followed)
    pair.peer.ask(Put((page[1],)), Taken)
    founding = pair.leading.founding()
    signed = sign_entries(founding, [("charter", page[0])])(pair.helping.head(), founding)
    assert signed[0].entry.index == entry.index
    with pytest.raises(PeerError) as refusal:
        pair.peer.ask(Follow(tuple(signed)), Followed)
    assert refusal.value.fault in (Fault.EQUIVOCATION, Fault.PARAMS_MISMATCH)
    assert pair.helping.progress() is None


def test_a_second_history_is_not_signed(pair: OperatorPair) -> None:
    """The helper has the entries that it has signed; others at their places prove that there are two."""
    founding, head = pair.leading.founding(), pair.helping.head()
    page = written(Names((person(60).public,)))
    before = pair.leading.entries(0)[:1]
    fork = sign_entries(founding, [("joined", page[0])])(
        type(head)().after(before, deployment=founding.deployment, recommender=founding.key.public), founding
    )
    pair.peer.ask(Put((page[1],)), Taken)
    with pytest.raises(PeerError, match=messages.EQUIVOCATION):
        pair.peer.ask(Follow((*before, *fork)), Followed)
    assert pair.peer.ask(Follow(tuple(pair.leading.entries(0))), Followed).cosigned.statement.length == head.length


def test_a_helper_asks_for_what_it_needs_to_follow(pair: OperatorPair) -> None:
    publish(pair, "joined", Names((person(60).public,)))
    new = tuple(pair.leading.entries(pair.helping.head().length))
    assert pair.peer.ask(Follow(new), Missing).documents == (new[0].entry.document,)
    later = (msgspec.structs.replace(new[0], entry=msgspec.structs.replace(new[0].entry, index=10**6)),)
    assert pair.peer.ask(Follow(later), Missing) == Missing(pair.helping.head().length, ())


def test_a_long_log_is_followed_in_parts_from_wherever_either_is(
    pair: OperatorPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = pair.leading.entries
    monkeypatch.setattr(pair.leading, "entries", lambda after, most=2: some(after, most))
    for at in range(60, 65):
        publish(pair, "joined", Names((person(at).public,)))
    for _ in range(2):  # the second knows nothing of what the helper has
        Peer(pair.leading, pair.line, clock=lambda: pair.now).follow()
        signed = pair.leading.cosigned()
        assert signed is not None
        assert signed.statement.length == pair.helping.head().length == pair.leading.head().length


def test_signatures_of_the_helper_go_on_in_time(pair: OperatorPair) -> None:
    first = pair.peer.ask(Follow(()), Followed).cosigned.statement.time
    pair.now -= 100
    assert pair.peer.ask(Follow(()), Followed).cosigned.statement.time == first
    pair.now += 200
    assert pair.peer.ask(Follow(()), Followed).cosigned.statement.time == first + 100


def test_a_signature_from_the_future_is_not_published(pair: OperatorPair) -> None:
    before = pair.leading.cosigned()
    later, service = int(pair.now) + SKEW + 1, pair.service
    signed = pair.helping.head().cosigned(deployment=service.deployment, time=later, identity=service.identity)
    pair.helping.put_cosigned(signed)
    with pytest.raises(PeerError, match=messages.SIGNED_LATER):
        pair.peer.follow()
    assert pair.leading.cosigned() == before


def test_a_window_is_not_closed_before_its_time(pair: OperatorPair) -> None:
    pair.post(*range(7))
    closes = pair.window.closes
    pair.now = closes - SKEW - 1
    pair.conductor.clock = lambda: closes
    with pytest.raises(PeerError, match=messages.CLOSED_EARLY):
        pair.run()
    assert pair.state(pair.helping).phase == "visits"
    pair.now = closes - SKEW
    pair.run()
    assert pair.state(pair.helping).phase == "moments"


def test_box_keys_are_made_for_the_next_campaign_and_stay_until_it_is_over(pair: OperatorPair) -> None:
    assert pair.peer.box_key(1) == pair.peer.box_key(1)
    with pytest.raises(PeerError, match=messages.ORDER):
        pair.peer.box_key(7)


def test_no_campaign_begins_with_a_helper_of_another_version(
    pair: OperatorPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found out before anybody has paid: a sum cannot be opened again."""
    end_campaign(pair.leading)
    pair.run()
    answered = pair.service.answer

    def answer(body: bytes, envelope: Envelope) -> tuple[bytes, str]:
        with monkeypatch.context() as patch:
            patch.setattr("prirec.__version__", "0.0.0")
            return answered(body, envelope)

    monkeypatch.setattr(pair.service, "answer", answer)
    with pytest.raises(PolicyError, match=messages.OTHER_VERSION_OF_HELPER):
        pair.begin()
    assert pair.leading.times("charter") == 1


def test_a_helper_that_is_not_paired_answers_nobody(tmp_path: Path) -> None:
    with Store.open(tmp_path / "helper.db") as store:
        found_helper(store, title="helper")
        with pytest.raises(UsageError, match=messages.NOT_PAIRED):
            HelperService(store)


# Envelopes


def header(**changes: object) -> bytes:
    wanted = {"deployment": DEPLOYMENT, "identity": PEER, "receiver": ME.public, "time": int(NOW)} | changes
    return sealed(b"body", **wanted).encode()  # type: ignore[arg-type]


def test_an_envelope_is_from_the_other_operator_for_this_one_and_new() -> None:
    expected = {"deployment": DEPLOYMENT, "senders": {PEER.public}, "receivers": {ME.public}, "now": int(NOW)}
    assert check_envelope(header(), **expected).body  # type: ignore[arg-type]
    for wrong in (
        header(deployment=bytes(16)), header(identity=ME), header(receiver=PEER.public), header(answers=b"\1" * 32),
        header(time=int(NOW) - SKEW - 1), header(time=int(NOW) + SKEW + 1), b"", b"!", header()[:-4],
    ):  # fmt: skip
        with pytest.raises(PeerError, match=messages.AUTH):
            check_envelope(wrong, **expected)  # type: ignore[arg-type]


def test_a_body_is_that_of_its_envelope_and_of_the_kind_that_was_asked_for() -> None:
    body = encode(NewBoxKey(1))
    one = sealed(body, deployment=DEPLOYMENT, identity=PEER, receiver=ME.public, time=int(NOW)).encode()
    envelope = check_envelope(one, deployment=DEPLOYMENT, senders={PEER.public}, receivers={ME.public}, now=int(NOW))
    assert read_operator_request(body, envelope) == NewBoxKey(1)
    with pytest.raises(PeerError, match=messages.AUTH):
        read_operator_request(encode(NewBoxKey(2)), envelope)
    with pytest.raises(PeerError, match=messages.DECODE):
        read_operator_answer(BoxKey, body, envelope)


def test_an_answer_to_something_else_is_not_believed(pair: OperatorPair) -> None:
    """A replayed answer is that to another request."""
    kept: list[tuple[bytes, bytes]] = []

    def line(body: bytes, envelope: str) -> tuple[bytes, bytes]:
        kept.append(pair.line(body, envelope))
        return kept[0]

    peer = Peer(pair.leading, line, clock=lambda: pair.now)
    peer.box_key(1)
    with pytest.raises(PeerError, match=messages.AUTH):
        peer.ask(Follow(()), Followed)


def test_another_kind_of_answer_is_refused(pair: OperatorPair) -> None:
    with pytest.raises(PeerError) as refusal:
        pair.peer.ask(NewBoxKey(1), Said)
    assert refusal.value.fault is Fault.ORDER
    with pytest.raises(PeerError, match=messages.DECODE):
        pair.peer.ask(Say(b"nothing"), Said)
