"""Somebody who does not follow the rules is refused in typed words, learns nothing, and changes nothing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import time
from typing import Any

import httpx
import msgspec
import pytest

from prirec.errors import StateError
from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Invitation, Keys, Round, Terms
from prirec.recommender.authentication import Authenticator
from prirec.recommender.store import Store
from prirec.wire.http import MOST_MESSAGES, SMALL, Mail, SignedClaim
from support.services import OPEN, Phone, Served, Site, handed_in, line, refusal, served, token_of
from support.stores import DEPLOYMENT, FOUNDING, IDENTITY, of
from support.waiting import until

CANARY = b"canary-2b9e"


def told(answer: httpx.Response) -> tuple[Any, ...]:
    """All that an answer tells, but for the time."""
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status_code, answer.content, headers


def wrong_claims(service: Served) -> dict[str, SignedClaim]:
    """Claims that must not open a session, each for a reason of its own."""
    phone, stranger, mallory = service.phone(1), service.phone(2, enrolled=False), service.phone(3)
    used = phone.claim(phone.challenge())
    assert phone.line.post("/v1/sessions", content=encode(used)).status_code == 200
    late = Authenticator(DEPLOYMENT, FOUNDING.token_key, clock=lambda: time() - 70, entropy=bytes).challenge()
    foreign = Authenticator(DEPLOYMENT, b"\1" * 32, clock=time, entropy=bytes).challenge()
    good = phone.claim(phone.challenge())
    return {
        "an identity that is not enrolled": stranger.claim(phone.challenge()),
        "a claim that was used before": used,
        "a challenge that was used before, by somebody else": mallory.claim(used.claim.challenge),
        "somebody else's name": mallory.claim(phone.challenge(), name=phone.name),
        "the name of somebody who is not enrolled": mallory.claim(phone.challenge(), name=stranger.name),
        "a key of low order": mallory.claim(phone.challenge(), name=bytes(32)),
        "no signature": SignedClaim(good.claim, bytes(64)),
        "another deployment": phone.claim(phone.challenge(), deployment=bytes(16)),
        "a challenge of the day before": phone.claim(late),
        "a challenge of the client's own": phone.claim(bytes(56)),
        "a challenge of another recommender": phone.claim(foreign),
    }


def wrong_headers(name: bytes) -> dict[str, dict[str, str]]:
    """Headers that must not pass for a session of this device."""
    good = token_of(name)
    return {
        "none": {},
        "empty": {"authorization": ""},
        "garbage": {"authorization": "Bearer garbage"},
        "another scheme": {"authorization": f"Basic {good}"},
        "run out": {"authorization": f"Bearer {token_of(name, clock=lambda: time() - 901)}"},
        "another key": {"authorization": f"Bearer {token_of(name, key=bytes(32))}"},
        "cut": {"authorization": f"Bearer {good[:-1]}"},
        "changed": {"authorization": f"Bearer {'B' if good[0] == 'A' else 'A'}{good[1:]}"},
        "not ASCII": {"authorization": "Bearer ä"},
        "in a cookie": {"cookie": f"token={good}"},
    }


def test_every_failure_of_authentication_is_answered_alike(site: Site) -> None:
    with served(site, code=None) as service:
        phone = service.phone(1)
        claims = wrong_claims(service)
        answers = {why: service.line.post("/v1/sessions", content=encode(one)) for why, one in claims.items()}
        for why, headers in wrong_headers(phone.name).items():
            raw = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
            answers[f"mail: {why}"] = service.line.post("/v1/mail", content=encode(Mail()), headers=raw)
            answers[f"leave: {why}"] = service.line.post("/v1/devices/leave", content=encode(Mail()), headers=raw)
        unsigned = msgspec.structs.replace(phone.enrolment(), signature=bytes(64))
        answers["an enrolment that is not signed"] = service.line.post("/v1/devices", content=encode(unsigned))
        elsewhere = encode(phone.enrolment(deployment=bytes(16)))
        answers["an enrolment elsewhere"] = service.line.post("/v1/devices", content=elsewhere)
        different = {
            why: told(answer) for why, answer in answers.items() if told(answer) != told(answers["no signature"])
        }
        assert not different
        assert refusal(answers["no signature"]) == (401, "AUTH")
        assert set(service.store.people()) == {phone.name, service.phone(3).name}


def test_what_a_device_sent_to_enrol_enrols_it_once(site: Site) -> None:
    with served(site) as service, served(site) as other_worker:
        phone = service.phone(enrolled=False)
        sent = encode(phone.enrolment())
        assert service.line.post("/v1/devices", content=sent).status_code == 200
        phone.post("/v1/devices/leave", encode(Mail()))
        for again in (service, other_worker):
            assert refusal(again.line.post("/v1/devices", content=sent)) == (401, "AUTH")
        assert service.store.people() == []
        phone.enrol()  # of its own will
        assert len(service.store.people()) == 1


def test_a_session_ends_when_its_device_leaves_at_every_worker(site: Site) -> None:
    with served(site) as service, served(site) as other_worker:
        phone, stays = service.phone(1), service.phone(2)
        stays.log_in()
        assert phone.post("/v1/mail", encode(Mail())).status_code == 200
        assert phone.post("/v1/devices/leave", encode(Mail())).status_code == 200
        service.store.deliver([(phone.name, of(), CANARY)])
        for worker in (service, other_worker):
            phone.line = stays.line = worker.line
            for wait in (0, 1):
                assert refusal(phone.post("/v1/mail", encode(Mail(wait=wait)))) == (401, "AUTH")
            assert stays.mail().messages == ()
        assert phone.post("/v1/devices/leave", encode(Mail())).status_code == 200  # the first answer may be lost
        assert refusal(phone.line.post("/v1/sessions", content=encode(phone.claim(phone.challenge())))) == (401, "AUTH")


def test_a_poll_of_a_device_that_leaves_is_answered_with_nothing(service: Served) -> None:
    phone = service.phone()
    phone.log_in()
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(phone.post, "/v1/mail", encode(Mail(wait=20)))
        until(lambda: "prirec_waiting_polls 1.0" in service.figures())
        with line(service.site, service.port) as other:
            leaving = Phone(other, phone.identity)
            leaving.post("/v1/devices/leave", encode(Mail()))
        service.store.deliver([(phone.name, of(), CANARY)])
        assert refusal(poll.result()) == (401, "AUTH")


def test_without_the_operators_code_nobody_enrols(site: Site) -> None:
    with served(site, code="märz 17") as service:
        phone = service.phone(enrolled=False)
        for code in ("", "guess"):
            answer = service.line.post("/v1/devices", content=encode(phone.enrolment(code=code)))
            assert refusal(answer) == (401, "AUTH")
        assert service.store.people() == []
        phone.enrol(code="märz 17")
        assert len(service.store.people()) == 1


def test_an_enrolment_of_an_earlier_version_is_refused_and_its_cell_not_kept(service: Served) -> None:
    """It named the coarse cell around the home, which nobody needs to know any more."""
    phone = service.phone(enrolled=False)
    kind, (tag, deployment, who, *rest), signature = msgspec.msgpack.decode(encode(phone.enrolment()))
    older = msgspec.msgpack.encode([kind, [tag, deployment, who, 599686042433355775, *rest], signature])
    assert refusal(service.line.post("/v1/devices", content=older)) == (400, "DECODE")
    assert service.store.people() == []


def test_other_peoples_mailboxes_stay_closed_and_full(service: Served) -> None:
    bob, eve = service.phone(1), service.phone(2)
    service.store.deliver([(bob.name, of(), CANARY)])
    for after, wait in ((0, 1), (1, 0), (2**63 - 1, 0)):
        answer = eve.post("/v1/mail", encode(Mail((), after, wait)), **{"x-device": bob.name.hex()})
        assert CANARY not in answer.content
        assert eve.mail(eve.says(mark=after % 7), after=after).messages == ()
    eve.post("/v1/devices/leave", encode(Mail()))
    assert [message.body for message in bob.mail().messages] == [CANARY]


def test_a_message_with_another_senders_name_is_refused(service: Served) -> None:
    bob, eve = service.phone(1), service.phone(2)
    post = eve.mail(bob.says(), bob.says(sender=IDENTITY.public), eve.says(sender=bytes(32)))
    assert [why.partition(":")[0] for why in post.refused] == ["AUTH"] * 3
    assert handed_in(service.store) == []


def test_a_device_says_only_what_a_member_says_to_the_recommender(service: Served) -> None:
    eve, bob = service.phone(1), service.phone(2)
    terms = Terms("double", 3, 64, 8, 2**20)
    invitation = Invitation(VERSION, of(), eve.name, IDENTITY.public, terms, bytes(32), bytes(32), bytes(64))
    keys = Keys(VERSION, of(), eve.name, bob.name, bytes(32), bytes(32), bytes(32), bytes(64))
    post = eve.mail(encode(invitation), encode(keys))
    assert [why.partition(":")[0] for why in post.refused] == ["ORDER"] * 2
    assert handed_in(service.store) == []


@pytest.mark.parametrize(
    "wanted",
    [
        Round(DEPLOYMENT, "interaction", 2),
        Round(DEPLOYMENT, "interaction", 1, 1),
        Round(DEPLOYMENT, "interaction", 1, 0, 1),
        Round(bytes(16), "interaction", 1),
        Round(DEPLOYMENT, "moments", 1),
        Round(DEPLOYMENT, "lin\0ear", 1),
        Round(DEPLOYMENT, "'; DROP TABLE inbox; --", 1),
        Round(DEPLOYMENT, "interaction", 2**31 - 1, 2**31 - 1, 2**31 - 1),
    ],
)
def test_rounds_that_are_not_open_take_nothing(shared_service: Served, wanted: Round) -> None:
    phone = shared_service.newcomer()
    assert phone.mail(phone.says(to=wanted)).refused == ("ORDER: message 0 is for a round that is not open",)
    assert phone.mail(phone.says()).refused == ()
    assert handed_in(shared_service.store, by=phone) == [phone.says()]


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


BAD_BODIES: dict[str, Callable[[Phone], bytes]] = {
    "nothing": lambda phone: b"",
    "garbage": lambda phone: CANARY,
    "another request": lambda phone: encode(phone.enrolment()),
    "an answer": lambda phone: msgspec.msgpack.encode(["prirec done"]),
    "trailing bytes": lambda phone: encode(Mail()) + b"\0",
    "cut": lambda phone: encode(Mail((phone.says(),)))[:-1],
    "another spelling": lambda phone: msgspec.msgpack.encode(["prirec mail", [], 0, 0]).replace(b"\x90", b"\xdc\0\0"),
    "too many messages": lambda phone: encode(Mail(tuple(phone.says(mark=at) for at in range(MOST_MESSAGES + 1)))),
    "too long a wait": lambda phone: encode(Mail((), 0, 31)),
    "a number below 0": lambda phone: encode(Mail((), -1, 0)),
    "a number too large": lambda phone: encode(Mail((), 2**63, 0)),
    "one field more": lambda phone: msgspec.msgpack.encode(["prirec mail", [], 0, 0, CANARY]),
    "JSON": lambda phone: b'["prirec mail", [], 0, 0]',
    "text for bytes": lambda phone: msgspec.msgpack.encode(["prirec mail", [CANARY.decode()], 0, 0]),
    "nested deeply": lambda phone: nested(100_000),
    "a length that is not there": lambda phone: b"\x94\xabprirec mail\xdd\xff\xff\xff\xff",
}


@pytest.mark.parametrize("why", BAD_BODIES)
def test_a_body_that_is_not_exactly_one_request_is_refused_without_repeating_it(
    shared_service: Served, why: str
) -> None:
    phone = shared_service.newcomer()
    answer = phone.post("/v1/mail", BAD_BODIES[why](phone))
    assert refusal(answer) == (400, "DECODE")
    assert CANARY not in answer.content
    assert handed_in(shared_service.store, by=phone) == []


@pytest.mark.parametrize("path", ["/v1/devices", "/v1/sessions", "/v1/challenges"])
def test_other_addresses_take_their_own_requests_only(shared_service: Served, path: str) -> None:
    phone = shared_service.newcomer()
    wrong = {encode(Mail()), CANARY, encode(phone.enrolment()) + b"\0", encode(phone.claim(b"x"))[:-1], nested(3000)}
    for body in wrong:
        assert refusal(shared_service.line.post(path, content=body)) == (400, "DECODE")


@pytest.mark.parametrize("path", ["/v1/devices", "/v1/sessions", "/v1/challenges", "/v1/devices/leave"])
def test_small_requests_have_a_small_limit(shared_service: Served, path: str) -> None:
    phone = shared_service.newcomer()
    assert refusal(phone.post(path, bytes(SMALL + 1))) == (413, "TOO_LARGE")

    def in_pieces() -> Any:
        yield from (bytes(1000) for _ in range(10))

    if not phone.token:
        phone.log_in()
    answer = shared_service.line.post(path, content=in_pieces(), headers={"authorization": f"Bearer {phone.token}"})
    assert refusal(answer) == (413, "TOO_LARGE")


def test_mail_has_a_size_limit_with_and_without_a_content_length(site: Site) -> None:
    with served(site, limits=replace(OPEN, mail=100_000)) as service:
        phone = service.phone()
        assert refusal(phone.post("/v1/mail", bytes(100_001))) == (413, "TOO_LARGE")
        headers = {"authorization": f"Bearer {phone.token}"}
        answer = service.line.post("/v1/mail", content=(bytes(10_000) for _ in range(300)), headers=headers)
        assert refusal(answer) == (413, "TOO_LARGE")
        assert phone.mail(phone.says()).refused == ()


@pytest.mark.parametrize(
    ("error", "expected"), [(ValueError(CANARY.decode()), (500, "FAILED")), (StateError("full"), (503, "AWAY"))]
)
def test_internal_errors_are_answered_in_fixed_words_and_the_service_goes_on(
    service: Served, monkeypatch: pytest.MonkeyPatch, error: Exception, expected: tuple[int, str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    phone = service.phone()
    phone.log_in()
    with monkeypatch.context() as patch:
        for method in ("post_messages", "entries", "document", "enrol", "enrolled", "leave"):
            patch.setattr(Store, method, broken)
        answers = [
            phone.post("/v1/mail", encode(Mail((phone.says(),)))),
            phone.post("/v1/devices/leave", encode(Mail())),
            service.line.get("/v1/log"),
            service.line.get(f"/v1/documents/{'ab' * 32}"),
            service.line.post("/v1/devices", content=encode(phone.enrolment())),
            service.line.post("/v1/sessions", content=encode(phone.claim(phone.challenge()))),
        ]
    assert {refusal(answer) for answer in answers} == {expected}
    assert len({answer.content for answer in answers}) == 1
    assert CANARY not in answers[0].content
    assert phone.mail(phone.says()).refused == ()
    assert handed_in(service.store) == [phone.says()]
