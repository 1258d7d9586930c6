"""The operator's code cannot be tried out: a wrong one costs, and those who know the right one get in meanwhile."""

from dataclasses import replace

import httpx
import msgspec
import pytest

from prirec.errors import PeerError
from prirec.protocols.codec import encode
from prirec.recommender.authentication import Authenticator, EnrolmentGate
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.responses import RefusedError
from support import messages
from support.services import OPEN, Phone, Served, Site, refusal, served
from support.stores import DEPLOYMENT, FOUNDING, IDENTITY

CODE = "4711"
LIMITS = Limits()
LINE = httpx.Client(trust_env=False)  # that nothing is sent on


def tried(service: Served, phone: Phone, code: str) -> int:
    return service.line.post("/v1/devices", content=encode(phone.enrolment(code=code))).status_code


def test_a_code_cannot_be_guessed_at_full_speed(site: Site) -> None:
    with served(site, code=CODE) as service:  # without limits of other kinds
        statuses = [tried(service, service.phone(at, enrolled=False), str(4000 + at)) for at in range(3)]
    with served(site, code=CODE, limits=replace(OPEN, guess=LIMITS.guess, guesses=LIMITS.guesses)) as service:
        eve = service.phone(enrolled=False)
        statuses += [tried(service, eve, str(at)) for at in range(4700, 4720)]
        answer = service.line.post("/v1/devices", content=encode(eve.enrolment(code=CODE)))
        assert refusal(answer) == (429, "TOO_MANY")
        assert 90 <= int(answer.headers["retry-after"]) <= 100
        assert service.store.people() == []
    assert statuses == [401] * 3 + [401] * 10 + [429] * 10  # 4711 was among them


def test_the_right_code_costs_no_guess(site: Site) -> None:
    with served(site, code=CODE, limits=replace(OPEN, guess=Rate(0.001, 1))) as service:
        assert [tried(service, service.phone(at, enrolled=False), CODE) for at in range(5)] == [200] * 5
        assert tried(service, service.phone(9, enrolled=False), "wrong") == 401
        assert tried(service, service.phone(9, enrolled=False), CODE) == 429


def test_without_a_code_attempts_to_enrol_are_not_counted_as_guesses(site: Site) -> None:
    with served(site, limits=replace(OPEN, guess=Rate(0.001, 1))) as service:
        phone = service.phone(enrolled=False)
        wrong = encode(phone.enrolment(deployment=bytes(16)))
        assert [service.line.post("/v1/devices", content=wrong).status_code for _ in range(3)] == [401] * 3
        assert tried(service, phone, "") == 200


CHALLENGE = Authenticator(DEPLOYMENT, FOUNDING.token_key, clock=lambda: 0.0, entropy=bytes).challenge()


def outcome(newcomers: EnrolmentGate, code: str, *, address: str, now: float) -> str:
    phone = Phone(LINE, IDENTITY)
    try:
        newcomers.admit(phone.enrolment(code=code, challenge=CHALLENGE), address=address, now=now)
    except PeerError:
        return "wrong"
    except RefusedError as refused:
        return f"wait {refused.headers['retry-after']}"
    return "in"


@pytest.fixture
def newcomers() -> EnrolmentGate:
    door = Authenticator(DEPLOYMENT, FOUNDING.token_key, clock=lambda: 0.0, entropy=bytes, code=CODE)
    return EnrolmentGate(door, limits=LIMITS)


def test_a_guesser_keeps_nobody_out_but_those_behind_its_own_address(newcomers: EnrolmentGate) -> None:
    heard = [outcome(newcomers, "wrong", address="eve's", now=at / 1000) for at in range(10_000)]
    assert heard.count("wrong") == 10
    assert outcome(newcomers, CODE, address="bob's", now=10.0) == "in"
    assert outcome(newcomers, CODE, address="eve's", now=10.0) == "wait 90"
    assert outcome(newcomers, CODE, address="eve's", now=100.0) == "in"


def test_guessers_at_many_addresses_get_no_more_guesses_together_than_all_may_have(newcomers: EnrolmentGate) -> None:
    heard = [outcome(newcomers, "wrong", address=f"{at}", now=at / 1000) for at in range(4000)]
    assert heard.count("wrong") == 500 + 1  # and one for every two seconds
    assert outcome(newcomers, CODE, address="bob's", now=3.999) == "wait 1"
    assert outcome(newcomers, CODE, address="bob's", now=4.0) == "in"


def test_the_code_is_not_checked_for_a_request_with_another_signature(newcomers: EnrolmentGate) -> None:
    signed = Phone(LINE, IDENTITY).enrolment(code=CODE, challenge=CHALLENGE)
    with pytest.raises(PeerError, match=messages.KEY_OR_SIGNATURE_INVALID):
        newcomers.admit(msgspec.structs.replace(signed, signature=bytes(64)), address="eve's", now=0.0)
