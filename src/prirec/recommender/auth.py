"""Who is who. A device proves that it holds its identity's key, and gets a token that any worker can check by itself.

Challenges and tokens are sealed with keys that follow from one secret of the deployment; nothing is kept for them but,
for a minute and in each worker, which challenges were answered. So a claim that was seen on its way opens no second
session at the same worker; at another it gives, within that minute, the token that it gave before, never a newer one.

Whatever is wrong, PeerError AUTH, and the service answers all of them alike. The signature is checked before anybody is
looked up: who does not hold a key learns nothing about whether its name is known.
"""

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import Final

from prirec.contract.wire import BEARER, Claim, Session, SignedClaim, SignedEnrolment
from prirec.errors import Fault, PeerError
from prirec.protocols.codec import encode
from prirec.recommender.answers import too_many
from prirec.sharing.keys import derive, verify

CHALLENGE_SECONDS: Final = 60
SESSION_SECONDS: Final = 900
SKEW: Final = 5  # seconds by which another worker's clock may be ahead
MOST_CHECKED: Final = 50_000  # tokens whose seals need not be checked again
MOST_ANSWERED: Final = 200_000  # challenges that a worker remembers

_CHALLENGE = Struct(">q16s")  # when it was made, and what makes it one of a kind
_TOKEN = Struct(">32sq")  # whose it is, and until when
_BEARER = BEARER.encode("ascii")


class Doorkeeper:
    """Seals and checks. `clock` is the time of day, in seconds; `entropy` gives so many fresh bytes."""

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
        self._sessions: dict[bytes, tuple[bytes, int]] = {}
        self._answered, self._order = set[bytes](), deque[tuple[float, bytes]]()

    def challenge(self) -> bytes:
        """Something fresh to sign."""
        made = _CHALLENGE.pack(int(self._clock()), self._entropy(16))
        return made + _sealed(self._challenge_key, made)

    def enrolling(self, signed: SignedEnrolment) -> None:
        """Silent if the holder of the name asks for this, and knows the operator's code where there is one."""
        wanted = signed.enrolment
        verify(wanted.name, signature=signed.signature, message=encode(wanted))
        if wanted.deployment != self._deployment:
            raise _nobody()
        given = sha256(wanted.code.encode()).digest()
        if self._code is not None and not hmac.compare_digest(given, self._code):
            raise _nobody()

    def claiming(self, signed: SignedClaim) -> Claim:
        """What the holder of the name has signed, with a challenge of ours. Nothing is remembered yet: whoever is not
        enrolled uses up nothing of what there is for those who are."""
        self._of_ours(signed.claim.challenge)
        if signed.claim.deployment != self._deployment:
            raise _nobody()
        verify(signed.claim.name, signature=signed.signature, message=encode(signed.claim))
        return signed.claim

    def admitted(self, claim: Claim) -> Session:
        """A session on such a claim, of somebody who is enrolled, if nobody answered its challenge before."""
        made = self._of_ours(claim.challenge)
        self._answer(claim.challenge)
        return self.session(claim.name, made=made)

    def session(self, name: bytes, *, made: int) -> Session:
        """Counted from when the challenge was made: a claim stands for one token, wherever it is shown."""
        token = _TOKEN.pack(name, made + SESSION_SECONDS)
        sealed = b64encode(token + _sealed(self._session_key, token)).decode("ascii")
        return Session(sealed, max(0, made + SESSION_SECONDS - int(self._clock())))

    def name(self, authorization: bytes) -> bytes:
        """Whose session the header of a request shows."""
        name, until = self._sessions.get(authorization) or self._opened(authorization)
        if until <= self._clock():
            raise _nobody()
        return name

    def _opened(self, authorization: bytes) -> tuple[bytes, int]:
        """A token's name and end, once its seal is checked."""
        scheme, _, token = authorization.partition(b" ")
        try:
            data = b64decode(token, validate=True)
        except Base64Error:
            raise _nobody() from None
        body, mac = data[: _TOKEN.size], data[_TOKEN.size :]
        sealed = len(body) == _TOKEN.size and hmac.compare_digest(mac, _sealed(self._session_key, body))
        if scheme != _BEARER or not sealed:
            raise _nobody()
        if len(self._sessions) >= MOST_CHECKED:
            self._sessions.clear()
        name, until = self._sessions[authorization] = _TOKEN.unpack(body)
        return name, until

    def _of_ours(self, challenge: bytes) -> int:
        """When it was made, if it was made here and can still be answered."""
        body, mac = challenge[: _CHALLENGE.size], challenge[_CHALLENGE.size :]
        if len(body) != _CHALLENGE.size or not hmac.compare_digest(mac, _sealed(self._challenge_key, body)):
            raise _nobody()
        made: int = _CHALLENGE.unpack(body)[0]
        if not -SKEW <= self._clock() - made <= CHALLENGE_SECONDS:
            raise _nobody()
        return made

    def _answer(self, challenge: bytes) -> None:
        now = self._clock()
        while self._order and self._order[0][0] < now:
            self._answered.discard(self._order.popleft()[1])
        if challenge in self._answered:
            raise _nobody()
        if len(self._answered) >= MOST_ANSWERED:  # to forget one early would let it be answered again
            raise too_many(CHALLENGE_SECONDS)
        self._answered.add(challenge)
        self._order.append((now + CHALLENGE_SECONDS + SKEW, challenge))


def _nobody() -> PeerError:
    return PeerError(Fault.AUTH, "a key, a signature or a session does not hold")


def _sealed(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
