"""Mail over the wire: messages are durable before they are acknowledged, messages come as soon as they are there."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Masked
from prirec.protocols.party import Persist, Stage
from prirec.recommender.mailbox import Mailbox
from prirec.recommender.store import MOST_MESSAGES
from prirec.wire.documents import Model, written
from prirec.wire.http import MOST_QUEUED, Done, Inbox, Mail
from support.services import OPEN, Phone, Served, Site, good, handed_in, refusal, served
from support.stores import IDENTITY, ONE, of, signed
from support.waiting import PATIENCE, until


def test_a_message_that_was_taken_is_in_the_store(service: Served) -> None:
    phone = service.phone()
    message = phone.says()
    post = phone.mail(message)
    assert (post.messages, post.refused) == ((), ())
    assert handed_in(service.store) == [message]


def test_a_repeated_message_is_stored_once_and_a_different_one_is_stored_too(service: Served) -> None:
    phone = service.phone()
    for mark in (0, 0, 1):
        assert phone.mail(phone.says(mark=mark)).refused == ()
    assert handed_in(service.store) == [phone.says(mark=0), phone.says(mark=1)]


def test_messages_are_the_receivers_alone_and_come_until_they_are_acknowledged(service: Served) -> None:
    one, other = service.phone(1), service.phone(2)
    service.store.deliver([(one.name, of(), b"first"), (other.name, of(), b"other"), (one.name, of(), b"second")])
    queued = one.mail().messages
    assert [message.body for message in queued] == [b"first", b"second"]
    assert [message.body for message in one.mail(after=queued[0].number).messages] == [b"second"]
    assert one.mail(after=queued[1].number).messages == ()
    assert [message.body for message in other.mail().messages] == [b"other"]


def test_acknowledged_messages_are_deleted(service: Served) -> None:
    phone = service.phone()
    service.store.deliver([(phone.name, of(), b"first"), (phone.name, of(), b"second")])
    first, second = phone.mail().messages
    for arrived, left in ((first, [second]), (second, [])):  # whether something is handed in along with it or not
        phone.mail(*([] if left else [phone.says()]), after=arrived.number)
        until(lambda left=left: service.store.counts().queued == len(left))
        assert service.store.queued(phone.name, 0, 10) == left


def test_a_full_mailbox_comes_in_pieces(service: Served) -> None:
    phone = service.phone()
    service.store.deliver([(phone.name, of(), b"%d" % at) for at in range(MOST_QUEUED + 3)])
    first = phone.mail().messages
    rest = phone.mail(after=first[-1].number).messages
    assert [int(message.body) for message in first + rest] == list(range(MOST_QUEUED + 3))


def test_the_length_of_the_log_covers_what_messages_speak_of(service: Served) -> None:
    phone = service.phone()
    assert phone.mail().entries == 0
    document = written(Model(bytes(32), 0, bytes(8)))
    service.store.advance(
        progress=b"", documents=[document], entries=signed(service.store.head(), ("model", document[0]))
    )
    service.store.deliver([(phone.name, of(), b"about it")])
    post = phone.mail()
    assert ([message.body for message in post.messages], post.entries) == ([b"about it"], 1)


def waiting(service: Served, phone: Phone, pool: ThreadPoolExecutor) -> "Future[Inbox]":
    """A poll that is under way, once the service has it."""
    answer = pool.submit(phone.mail, wait=20)
    until(lambda: "prirec_waiting_polls 1.0" in service.figures())
    return answer


@pytest.mark.usefixtures("endless_polls")
def test_a_poll_is_answered_by_a_message_that_another_process_delivers(service: Served) -> None:
    phone = service.phone()
    with ThreadPoolExecutor() as pool:
        answer = waiting(service, phone, pool)
        service.store.deliver([(phone.name, of(), b"hello")])
        assert [message.body for message in answer.result().messages] == [b"hello"]


@pytest.mark.usefixtures("endless_polls")
def test_a_poll_is_answered_when_the_log_grows(service: Served) -> None:
    phone = service.phone()
    with ThreadPoolExecutor() as pool:
        answer = waiting(service, phone, pool)
        document = written(Model(bytes(32), 0, bytes(8)))
        entries = signed(service.store.head(), ("model", document[0]))
        service.store.advance(progress=b"", documents=[document], entries=entries)
        post = answer.result()
    assert (post.messages, post.entries) == ((), 1)


def test_a_poll_without_mail_is_answered_when_the_time_that_the_device_asked_for_is_over(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, real = list[float](), Mailbox.long_poll

    def watched(self: Mailbox, name: bytes, *, after: int, seconds: float) -> Any:
        asked.append(seconds)
        return real(self, name, after=after, seconds=seconds)

    monkeypatch.setattr(Mailbox, "long_poll", watched)
    post = service.phone().mail(wait=1)
    assert (post.messages, post.refused, asked) == ((), (), [1])


@pytest.mark.usefixtures("endless_polls")
def test_a_message_for_somebody_else_answers_no_poll(service: Served) -> None:
    phone, other = service.phone(1), service.phone(2)
    with ThreadPoolExecutor() as pool:
        answer = waiting(service, phone, pool)
        service.store.deliver([(other.name, of(), b"other")])
        assert [message.body for message in other.mail().messages] == [b"other"]  # so the service has looked
        assert not answer.done()
        service.store.deliver([(phone.name, of(), b"mine")])
        assert [message.body for message in answer.result().messages] == [b"mine"]


@pytest.mark.usefixtures("endless_polls")
def test_a_newer_poll_releases_the_older(service: Served) -> None:
    phone = service.phone()
    with ThreadPoolExecutor() as pool:
        older = waiting(service, phone, pool)
        newer = pool.submit(phone.mail, wait=20)
        assert older.result(timeout=PATIENCE).messages == ()
        service.store.deliver([(phone.name, of(), b"hello")])
        assert [message.body for message in newer.result().messages] == [b"hello"]


@pytest.mark.usefixtures("endless_polls")
def test_posting_meanwhile_does_not_disturb_a_poll(service: Served) -> None:
    phone = service.phone()
    with ThreadPoolExecutor() as pool:
        answer = waiting(service, phone, pool)
        assert phone.mail(phone.says()).refused == ()
        assert not answer.done()
        service.store.deliver([(phone.name, of(), b"hello")])
        assert len(answer.result().messages) == 1


@pytest.mark.usefixtures("endless_polls")
def test_a_poll_keeps_no_memory_from_others(site: Site) -> None:
    large = bytes(200_000)
    with served(site, limits=replace(OPEN, under_way=300_000)) as service, ThreadPoolExecutor() as pool:
        one, other = service.phone(1), service.phone(2)
        message = encode(Masked(VERSION, of(), one.name, IDENTITY.public, large, bytes(64)))
        answer = pool.submit(one.mail, message, wait=20)
        until(lambda: service.store.counts().messages)
        assert other.post("/v1/mail", encode(Mail((large,)))).status_code == 200
        assert not answer.done()
        service.store.deliver([(one.name, of(), b"hello")])
        assert len(answer.result().messages) == 1


@pytest.mark.usefixtures("endless_polls")
def test_a_poll_with_a_message_that_is_refused_does_not_wait(service: Served) -> None:
    phone = service.phone()
    post = phone.mail(phone.says(to=of(2)), wait=20)
    assert [why.partition(":")[0] for why in post.refused] == ["ORDER"]


def test_a_round_that_is_over_takes_no_messages(service: Served) -> None:
    phone = service.phone()
    service.store.write(Persist(of(), Stage.BURNT, ONE))
    assert phone.mail(phone.says()).refused == ("ORDER: message 0 is for a round that is not open",)
    assert handed_in(service.store) == []


def test_an_uninvited_device_gets_the_answer_of_a_late_one(service: Served) -> None:
    stranger = service.phone(enrolled=False)
    stranger.enrol()
    assert stranger.mail(stranger.says()).refused == ("ORDER: message 0 is for a round that is not open",)
    assert handed_in(service.store) == []


def test_what_is_wrong_with_one_message_does_not_keep_the_others_out(service: Served) -> None:
    phone = service.phone()
    good_ones = [phone.says(mark=1), phone.says(mark=2)]
    post = phone.mail(good_ones[0], b"garbage", phone.says(to=of(7)), good_ones[1], phone.says(receiver=phone.name))
    assert post.refused == (
        "DECODE: message 1 is not exactly one message of this version",
        "ORDER: message 2 is for a round that is not open",
        "ORDER: message 4 is not for the recommender",
    )
    assert handed_in(service.store) == good_ones


def test_messages_of_many_devices_at_once_are_all_taken(service: Served) -> None:
    phones = [service.phone(at) for at in range(16)]
    with ThreadPoolExecutor(16) as pool:
        posts = list(
            pool.map(lambda phone: phone.mail(*(phone.says(mark=mark) for mark in range(MOST_MESSAGES))), phones)
        )
    assert all(post.refused == () for post in posts)
    assert sorted(handed_in(service.store)) == sorted(
        phone.says(mark=mark) for phone in phones for mark in range(MOST_MESSAGES)
    )


def test_enrolling_again_keeps_one_entry(service: Served) -> None:
    phone = service.phone()
    for _ in range(3):
        phone.enrol()
        assert service.store.people() == [phone.name]


def test_a_device_that_leaves_is_deleted_and_gets_no_new_session(service: Served) -> None:
    phone = service.phone()
    service.store.deliver([(phone.name, of(), b"hello")])
    good(Done, phone.post("/v1/devices/leave", encode(Mail())))
    assert service.store.people() == []
    assert service.store.counts().queued == 0
    again = phone.line.post("/v1/sessions", content=encode(phone.claim(phone.challenge())))
    assert refusal(again) == (401, "AUTH")


def test_an_excluded_device_loses_its_session_and_gets_no_new_one(service: Served) -> None:
    phone, other = service.phone(1), service.phone(2)
    assert good(Inbox, phone.post("/v1/mail", encode(Mail())))
    service.store.exclude(phone.name, reason="it lied", day=0)
    assert refusal(phone.post("/v1/mail", encode(Mail()))) == (401, "AUTH")
    again = phone.line.post("/v1/sessions", content=encode(phone.claim(phone.challenge())))
    assert refusal(again) == (401, "AUTH")
    enrolment = phone.line.post("/v1/devices", content=encode(phone.enrolment()))
    assert refusal(enrolment) == (401, "AUTH")
    assert good(Inbox, other.post("/v1/mail", encode(Mail())))


@pytest.mark.parametrize("body", [b"", encode(Mail((b"x",))), b"garbage"])
def test_a_request_to_leave_has_no_body(service: Served, body: bytes) -> None:
    phone = service.phone()
    assert refusal(phone.post("/v1/devices/leave", body)) == (400, "DECODE")
    assert len(service.store.people()) == 1
