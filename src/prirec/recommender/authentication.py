"""Enrolment and sessions: challenges that devices sign, session tokens, and limits on attempts to enrol.

A device proves that it holds its identity key by signing a challenge, and gets a session token that any worker can
check by itself: challenges and tokens carry a MAC under keys derived from one secret of the deployment, and no session
is stored. A session ends when it expires, or when its device leaves: only who is enrolled gets mail (mailbox.py).

A challenge is answered once. Those that an enrolment has answered are in the store until they expire, so that nobody
can enrol a device that has left by sending again what it once sent. Those that a claim has answered are remembered in
each worker: a claim that an eavesdropper saw opens no second session at the same worker; at another worker it gives,
within a minute, the very token that it gave before, never a newer one.

Whatever is wrong, the error is PeerError AUTH, and the service answers all of them alike. Signatures are checked before
anybody is looked up: who does not hold a key cannot find out whether its name is enrolled.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import encode
from prirec.recommender.limits import Limits, RateLimiter
from prirec.recommender.responses import too_many
from prirec.sharing.keys import derive, verify
from prirec.wire.http import BEARER, Claim, Session, SignedClaim, SignedEnrolment

CHALLENGE_SECONDS: Final = 60  # for two requests of one device; answered challenges are remembered as long
SESSION_SECONDS: Final = 900  # how long a stolen token is of use, unless its device leaves or the token key is replaced
SKEW: Final = 5  # seconds by which another worker's clock may be ahead
MOST_CHALLENGES: Final = 200_000  # answered challenges that a worker remembers

_CHALLENGE = Struct(">q16s")  # when it was made, and a nonce
_TOKEN = Struct(">32sq")  # whose it is, and when it expires
_BEARER = BEARER.encode("ascii")


class Authenticator:
    """Issues and checks challenges and session tokens. `clock` is the time of day in seconds; `entropy` gives so many
    fresh bytes; `code` is the operator's enrolment code, if there is one."""

    def __init__(
        self,
        deployment: bytes,
        token_key: bytes,
        *,
        clock: Callable[[], float],
        entropy: Callable[[int], bytes],
        code: str | None = None,
    ):
        self._deployment, self._clock, self._entropy = deployment, clock, entropy
        self._challenge_key = derive(token_key, "prirec challenges", deployment)
        self._session_key = derive(token_key, "prirec sessions", deployment)
        self._code = None if code is None else sha256(code.encode()).digest()
        self.asks_for_code = code is not None
        self._answered, self._order = set[bytes](), deque[tuple[float, bytes]]()

    def challenge(self) -> bytes:
        """A fresh value for a device to sign."""
        made = _CHALLENGE.pack(int(self._clock()), self._entropy(16))
        return made + _mac(self._challenge_key, made)

    def check_enrolment(self, signed: SignedEnrolment) -> None:
        """PeerError unless the key's holder asks to enrol here and now, and knows the operator's code where there is
        one. Whether the challenge was answered before, the store knows."""
        wanted = signed.enrolment
        self._time_of(wanted.challenge)
        verify(wanted.name, signature=signed.signature, message=encode(wanted))
        if wanted.deployment != self._deployment:
            raise _unauthenticated()
        # Hashes are compared, in constant time: timing tells neither the code's length nor its first letters.
        given = sha256(wanted.code.encode()).digest()
        if self._code is not None and not hmac.compare_digest(given, self._code):
            raise _unauthenticated()

    def check_claim(self, signed: SignedClaim) -> Claim:
        """Check a claim to an identity: signed by its key, together with a challenge of ours. The challenge is not
        marked as answered yet: a device that is not enrolled uses up none of the MOST_CHALLENGES that those enrolled
        share."""
        self._time_of(signed.claim.challenge)
        if signed.claim.deployment != self._deployment:
            raise _unauthenticated()
        verify(signed.claim.name, signature=signed.signature, message=encode(signed.claim))
        return signed.claim

    def open_session(self, claim: Claim) -> Session:
        """A session for a claim that was checked, of a device that is enrolled. PeerError if its challenge was answered
        before."""
        made = self._time_of(claim.challenge)
        self._mark_answered(claim.challenge)
        return self.session(claim.name, made=made)

    def session(self, name: bytes, *, made: int) -> Session:
        """A session token. It expires SESSION_SECONDS after the challenge was made, not from now: so one claim gives
        one token, at every worker."""
        token = _TOKEN.pack(name, made + SESSION_SECONDS)
        sealed = b64encode(token + _mac(self._session_key, token)).decode("ascii")
        return Session(sealed, max(0, made + SESSION_SECONDS - int(self._clock())))

    def name(self, authorization: bytes) -> bytes:
        """The name of the device whose session token is in the authorization header of a request."""
        scheme, _, token = authorization.partition(b" ")
        try:
            data = b64decode(token, validate=True)
        except Base64Error:
            raise _unauthenticated() from None
        body, mac = data[: _TOKEN.size], data[_TOKEN.size :]
        genuine = len(body) == _TOKEN.size and hmac.compare_digest(mac, _mac(self._session_key, body))
        if scheme != _BEARER or not genuine:
            raise _unauthenticated()
        name, until = _TOKEN.unpack(body)
        if until <= self._clock():
            raise _unauthenticated()
        return bytes(name)

    def _time_of(self, challenge: bytes) -> int:
        """When a challenge was made, if it was made here and can still be answered."""
        body, mac = challenge[: _CHALLENGE.size], challenge[_CHALLENGE.size :]
        if len(body) != _CHALLENGE.size or not hmac.compare_digest(mac, _mac(self._challenge_key, body)):
            raise _unauthenticated()
        made: int = _CHALLENGE.unpack(body)[0]
        if not -SKEW <= self._clock() - made <= CHALLENGE_SECONDS:
            raise _unauthenticated()
        return made

    def _mark_answered(self, challenge: bytes) -> None:
        now = self._clock()
        while self._order and self._order[0][0] < now:
            self._answered.discard(self._order.popleft()[1])
        if challenge in self._answered:
            raise _unauthenticated()
        if len(self._answered) >= MOST_CHALLENGES:  # to forget one early would let it be replayed
            raise too_many(CHALLENGE_SECONDS)
        self._answered.add(challenge)
        self._order.append((now + CHALLENGE_SECONDS + SKEW, challenge))


class EnrolmentGate:
    """Limits how many devices enrol, and how often an enrolment code can be guessed. Each worker counts for itself.

    A wrong code costs its address, and everyone together, a guess; the right code costs none. An address without
    guesses left is refused before its code is looked at, or the right code would still stand out among refusals.

    One guesser keeps out those behind its own address, and nobody else. An attacker with fifty addresses or more can
    keep all newcomers waiting: that is the lesser harm, for with the code he could enrol a crowd of his own. Devices
    that are enrolled already notice none of it."""

    def __init__(self, authenticator: Authenticator, *, limits: Limits):
        self._authenticator = authenticator
        self._each = RateLimiter[str](limits.enrolment, most=limits.remembered)
        self._all = RateLimiter[str](limits.enrolments)
        self._guesses = RateLimiter[str](limits.guess, most=limits.remembered)
        self._all_guesses = RateLimiter[str](limits.guesses)

    def admit(self, signed: SignedEnrolment, *, address: str, now: float) -> None:
        """Check an enrolment. PeerError AUTH if it does not hold, RefusedError if it is one too many."""
        guessable = self._authenticator.asks_for_code
        if guessable:
            self._guesses.refuse_spent(address, now=now)
            self._all_guesses.refuse_spent("", now=now)
        try:
            self._authenticator.check_enrolment(signed)
        except PeerError:
            if guessable:
                self._guesses.take(address, now=now)
                self._all_guesses.take("", now=now)
            raise
        self._each.take(address, now=now)
        self._all.take("", now=now)


def _unauthenticated() -> PeerError:
    return PeerError(Fault.AUTH, "a key, a signature or a session does not hold")


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
