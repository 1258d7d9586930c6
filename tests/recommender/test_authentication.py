"""Challenges, claims and tokens, without a service around them."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import Any

import pytest

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import encode
from prirec.recommender import authentication
from prirec.recommender.authentication import CHALLENGE_SECONDS, SESSION_SECONDS, SKEW, Authenticator
from prirec.recommender.responses import RefusedError
from prirec.sharing.keys import SigningKey
from prirec.wire.http import Claim, Enrolment, Session, SignedClaim, SignedEnrolment
from support import messages

DEPLOYMENT, KEY = bytes(range(16)), b"\5" * 32
ME, OTHER = SigningKey(b"\1" * 32), SigningKey(b"\2" * 32)


class Time:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Entropy:
    """Never twice the same."""

    def __init__(self) -> None:
        self.drawn = 0

    def __call__(self, size: int) -> bytes:
        self.drawn += 1
        return sha256(self.drawn.to_bytes(8, "big")).digest()[:size]


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def door(clock: Time) -> Authenticator:
    return Authenticator(DEPLOYMENT, KEY, clock=clock, entropy=Entropy())


def claim(challenge: bytes, *, name: bytes = ME.public, deployment: bytes = DEPLOYMENT) -> SignedClaim:
    wanted = Claim(deployment, name, challenge)
    return SignedClaim(wanted, ME.sign(encode(wanted)))


def claimed(door: Authenticator, signed: SignedClaim) -> Session:
    """As the service does it for somebody who is enrolled."""
    return door.open_session(door.check_claim(signed))


def shown(token: str) -> bytes:
    return f"Bearer {token}".encode()


def enrolment(
    challenge: bytes, *, code: str = "", deployment: bytes = DEPLOYMENT, by: SigningKey = ME
) -> SignedEnrolment:
    wanted = Enrolment(deployment, ME.public, code, challenge)
    return SignedEnrolment(wanted, by.sign(encode(wanted)))


def refused(call: Callable[[Any], object], argument: object) -> bool:
    """As a failure of authentication. That the service answers all of them alike is tested over the wire."""
    with pytest.raises(PeerError) as error:
        call(argument)
    return error.value.fault is Fault.AUTH


def test_a_signed_challenge_gives_a_session_that_any_worker_knows(door: Authenticator, clock: Time) -> None:
    session = claimed(door, claim(door.challenge()))
    worker = Authenticator(DEPLOYMENT, KEY, clock=clock, entropy=Entropy())
    assert worker.name(shown(session.token)) == ME.public
    assert session.seconds == SESSION_SECONDS


def test_no_two_challenges_are_the_same(door: Authenticator) -> None:
    assert len({door.challenge() for _ in range(100)}) == 100


@pytest.mark.parametrize("age", [CHALLENGE_SECONDS + 1, -SKEW - 1])
def test_a_challenge_is_answered_in_its_minute_or_not_at_all(door: Authenticator, clock: Time, age: float) -> None:
    challenge = door.challenge()
    clock.now += age
    assert refused(partial(claimed, door), claim(challenge))


@pytest.mark.parametrize("age", [0, CHALLENGE_SECONDS, -SKEW])
def test_in_its_minute_it_is_answered_by_a_worker_whose_clock_differs(
    door: Authenticator, clock: Time, age: float
) -> None:
    challenge = door.challenge()
    clock.now += age
    assert claimed(door, claim(challenge)).token


def test_a_challenge_is_answered_once(door: Authenticator, clock: Time) -> None:
    challenge = door.challenge()
    claimed(door, claim(challenge))
    for _ in range(CHALLENGE_SECONDS + SKEW + 1):
        assert refused(partial(claimed, door), claim(challenge))
        clock.now += 1


def test_a_claim_that_is_shown_to_another_worker_gives_no_newer_token(door: Authenticator, clock: Time) -> None:
    challenge = door.challenge()
    first = claimed(door, claim(challenge))
    clock.now += 30
    again = claimed(Authenticator(DEPLOYMENT, KEY, clock=clock, entropy=Entropy()), claim(challenge))
    assert again.token == first.token
    assert again.seconds == SESSION_SECONDS - 30


def test_answered_challenges_are_forgotten_when_they_could_not_be_answered_any_more(
    door: Authenticator, clock: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authentication, "MOST_CHALLENGES", 3)
    challenges = [door.challenge() for _ in range(4)]
    for challenge in challenges[:3]:
        claimed(door, claim(challenge))
    with pytest.raises(RefusedError, match=messages.TOO_MANY_REQUESTS):
        claimed(door, claim(challenges[3]))
    clock.now += CHALLENGE_SECONDS + SKEW + 1
    for challenge in [door.challenge() for _ in range(3)]:
        assert claimed(door, claim(challenge))


def test_everything_that_can_be_wrong_with_a_claim_is_refused(door: Authenticator) -> None:
    challenge = door.challenge()
    good = claim(challenge)
    elsewhere = Authenticator(DEPLOYMENT, b"\6" * 32, clock=Time(), entropy=Entropy())
    wrong = [
        claim(challenge, deployment=bytes(16)),
        claim(challenge, name=OTHER.public),  # signed by somebody else
        claim(challenge, name=bytes(32)),  # a key of low order
        claim(challenge[:-1] + bytes([challenge[-1] ^ 1])),
        claim(bytes([challenge[0] ^ 1]) + challenge[1:]),
        claim(challenge[:-1]),
        claim(challenge + b"\0"),
        claim(b"\0"),
        claim(elsewhere.challenge()),
        SignedClaim(good.claim, bytes(64)),
        SignedClaim(good.claim, OTHER.sign(encode(good.claim))),
    ]
    assert all(refused(partial(claimed, door), one) for one in wrong)
    assert claimed(door, good)  # none of them has used the challenge up


def test_a_token_with_any_bit_changed_is_refused(door: Authenticator) -> None:
    token = b64decode(claimed(door, claim(door.challenge())).token)
    for at in range(len(token)):
        changed = token[:at] + bytes([token[at] ^ 1 << at % 8]) + token[at + 1 :]
        assert refused(door.name, shown(b64encode(changed).decode()))


def test_malformed_tokens_are_refused(door: Authenticator) -> None:
    token = claimed(door, claim(door.challenge())).token
    challenge = door.challenge()
    wrong = [
        b"", b"Bearer", b"Bearer ", b"Bearer \xff\xfe", b"Bearer " + b"A" * 5, f"bearer {token}".encode(),
        f"Basic {token}".encode(), token.encode(), f"Bearer {token}A".encode(), f"Bearer  {token}".encode(),
        f"Bearer {token[:-4]}".encode(), shown(b64encode(challenge).decode()), b"Bearer " + b"A" * 10_000,
    ]  # fmt: skip
    assert all(refused(door.name, one) for one in wrong)
    assert door.name(shown(token)) == ME.public


def test_a_token_ends_when_it_says_also_where_it_was_checked_before(door: Authenticator, clock: Time) -> None:
    token = shown(claimed(door, claim(door.challenge())).token)
    clock.now += SESSION_SECONDS - 1
    assert door.name(token) == ME.public
    clock.now += 1
    assert refused(door.name, token)


def test_tokens_of_another_deployment_with_the_same_key_are_refused(door: Authenticator, clock: Time) -> None:
    twin = Authenticator(bytes(16), KEY, clock=clock, entropy=Entropy())
    assert refused(door.name, shown(twin.session(ME.public, made=int(clock())).token))


def test_enrolment_needs_a_signature_for_this_deployment(door: Authenticator) -> None:
    fresh = door.challenge()
    door.check_enrolment(enrolment(fresh))
    unsigned = SignedEnrolment(enrolment(fresh).enrolment, bytes(64))
    wrong = [enrolment(fresh, deployment=bytes(16)), enrolment(fresh, by=OTHER), unsigned]
    assert all(refused(door.check_enrolment, one) for one in wrong)


def test_an_enrolment_answers_a_challenge_of_ours_in_time(door: Authenticator, clock: Time) -> None:
    made_up, fresh = bytes(56), door.challenge()
    assert refused(door.check_enrolment, enrolment(made_up))
    clock.now += CHALLENGE_SECONDS
    door.check_enrolment(enrolment(fresh))
    clock.now += 1
    assert refused(door.check_enrolment, enrolment(fresh))


def test_where_there_is_a_code_it_is_asked_for(clock: Time) -> None:
    door = Authenticator(DEPLOYMENT, KEY, clock=clock, entropy=Entropy(), code="märz 17")
    door.check_enrolment(enrolment(door.challenge(), code="märz 17"))
    for code in ("", "märz 18", "märz 17 "):
        assert refused(door.check_enrolment, enrolment(door.challenge(), code=code))
