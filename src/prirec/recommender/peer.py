"""The recommender's client for its helper: requests over TLS 1.3, each in an envelope, and the answers to them."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from time import time
from typing import TypeAlias, TypeVar

import prirec
from prirec.errors import Fault, PeerError, PolicyError, PrirecError, StateError, UsageError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage, WireStruct
from prirec.recommender.rotation import operators_at
from prirec.recommender.store import Founding, Store
from prirec.util.trust import tls_context
from prirec.wire.documents import SignedEntry
from prirec.wire.http import MEDIA, read_answer
from prirec.wire.operators import (
    HEADER,
    MOST_SAID,
    PUT_TOGETHER,
    SKEW,
    BoxKey,
    Follow,
    Followed,
    Missing,
    NewBoxKey,
    OperatorRequest,
    Put,
    Said,
    Say,
    Taken,
    check_envelope,
    read_operator_answer,
    sealed,
)

SECONDS = 600.0  # that a helper has to answer: a batch is many proofs, and an opened sum is computed from
_Answer = TypeVar("_Answer", bound=WireStruct)

# Sends a body with its header, and returns those of the answer.
Line: TypeAlias = Callable[[bytes, str], tuple[bytes, bytes]]


class HelperAwayError(StateError):
    """The helper does not answer: what was asked is asked again later."""

    def __init__(self) -> None:
        super().__init__("the helper does not answer; the sums wait for it")


class Peer:
    """Asks the helper. PeerError if it refuses, HelperAwayError if it does not answer."""

    def __init__(self, store: Store, line: Line, *, clock: Callable[[], float] = time) -> None:
        if store.founding().peer is None:
            raise UsageError("this deployment has no helper")
        self._store, self._line, self._clock = store, line, clock
        self._length = 0  # of the helper's log

    @property
    def helper(self) -> bytes:
        """Its identity, which may be rotated."""
        return self._store.founding().peer or b""

    def ask(self, request: OperatorRequest, kind: type[_Answer]) -> _Answer:
        founding, body = self._store.founding(), encode(request)
        me, helper = founding.key, founding.peer or b""
        header = sealed(
            body, deployment=founding.deployment, identity=me, receiver=helper, time=int(self._clock())
        )  # fmt: skip
        answer, envelope = self._line(body, header)
        checked = check_envelope(
            envelope, deployment=founding.deployment, senders=(helper,), receivers=(me.public,),
            now=int(self._clock()), answers=sha256(body).digest(),
        )  # fmt: skip
        return read_operator_answer(kind, answer, checked)

    def box_key(self, campaign: int) -> bytes:
        """PolicyError if the helper runs another version, which may compute otherwise: it could sign no result."""
        found = self.ask(NewBoxKey(campaign), BoxKey)
        if found.version != prirec.__version__:
            raise PolicyError(
                "the helper runs another version of PriRec than this recommender, and could not sign what another one "
                "computes: run the same on both"
            )
        return found.key

    def say(self, message: bytes) -> list[AnyMessage]:
        """Send a message of a sum to the helper; its answer."""
        return [decode(one) for one in self.ask(Say(message), Said).messages]

    def follow(self) -> None:
        """Have the helper follow the log to its end, and store its signature."""
        store = self._store
        while True:
            head, entries = store.head(), store.entries(self._length)
            answer = self._follow(entries)
            if isinstance(answer, Missing):
                if answer.length == self._length and not answer.documents:
                    raise PeerError(Fault.ORDER, "the helper asks for nothing, and goes no further")
                self._length = answer.length
                self._put(answer.documents)
                continue
            signed = answer.cosigned
            helper = operators_at(store, signed.statement.length).helper  # who lags behind signs with the key of then
            signed.verify(helper, deployment=store.founding().deployment)
            if signed.statement.time > self._clock() + SKEW:  # devices would wait until then for the next one
                raise PeerError(Fault.AUTH, "the helper's signature is from the future: set the operators' clocks")
            if signed.statement.length < self._length + len(entries):
                raise PeerError(Fault.ORDER, "the helper asks for nothing, and goes no further")
            self._length = signed.statement.length  # perhaps further than what was said now: it knew the rest
            if (self._length, signed.statement.last) != store.place_of(self._length):
                raise PeerError(Fault.EQUIVOCATION, "the helper has signed another log than this one")
            store.put_cosigned(signed)
            if self._length >= head.length:
                return

    def _follow(self, entries: Sequence[SignedEntry]) -> Followed | Missing:
        answer = self.ask(Follow(tuple(entries)), WireStruct)
        if not isinstance(answer, Followed | Missing):
            raise PeerError(Fault.ORDER, "the helper answers something else than it was asked")
        return answer

    def _put(self, names: Sequence[bytes]) -> None:
        waiting, size = list[bytes](), 0
        for name in names:
            body = self._store.document(name)
            if body is None:
                raise StateError("the helper asks for a document that is not in the store; restore it from a backup")
            if waiting and size + len(body) > PUT_TOGETHER:
                self.ask(Put(tuple(waiting)), Taken)
                waiting, size = [], 0
            waiting.append(body)
            size += len(body)
        if waiting:
            self.ask(Put(tuple(waiting)), Taken)


class HttpsLine:
    """Over HTTPS to the helper's address, whose certificate the pinned authority has signed."""

    def __init__(self, founding: Founding) -> None:
        import httpx

        # trust_env=False: a proxy or CA from the environment must not get between the two
        self._client = httpx.Client(
            base_url=founding.peer_url or "", verify=tls_context(founding.peer_authority or b""),
            timeout=httpx.Timeout(SECONDS, connect=10.0), trust_env=False,
        )  # fmt: skip

    def __call__(self, body: bytes, header: str) -> tuple[bytes, bytes]:
        import httpx

        headers = {"content-type": MEDIA, HEADER: header}
        try:
            answer = self._client.post("/v1/operator", content=body, headers=headers)
        except httpx.HTTPError:
            raise HelperAwayError from None
        if answer.status_code == 200:
            return answer.content, answer.headers.get(HEADER, "").encode("ascii", "replace")
        if answer.status_code in (429, 503):
            raise HelperAwayError
        try:
            read_answer(answer.content, limit=MOST_SAID)
        except PrirecError as refusal:
            raise PeerError(Fault.ABORTED, f"the helper refuses: {refusal}") from None
        raise PeerError(Fault.ORDER, "the helper answers something else than it was asked")

    def close(self) -> None:
        self._client.close()
