"""A device that boxes are relayed for: a real member of a sum, connected to the service and to the bare relay."""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeVar

import msgspec
import numpy as np

from connections import Connection, request
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage, Delivery, Invitation, Roster, WireStruct
from prirec.protocols.party import Send
from prirec.protocols.secure_sum import ENTROPY, Member
from prirec.recommender.store import Founding
from prirec.sharing.keys import SigningKey
from prirec.wire import http
from prirec.wire.http import BEARER, Inbox, Mail
from relay_server import TERMS, task_of

FOUNDING = Founding(b"benchmark relay.", sha256(b"recommender").digest(), sha256(b"sessions").digest(), "a relay")

Answer = TypeVar("Answer", bound=WireStruct)


@dataclass
class Device:
    """One member, and its connections to both servers."""

    identity: SigningKey
    rng: np.random.Generator = field(repr=False)
    service: Connection = field(init=False, repr=False)
    bare: Connection = field(init=False, repr=False)
    member: Member = field(init=False, repr=False)
    place: dict[str, str] = field(init=False)  # for the bare relay, which is told what the service works out
    token: str = ""
    after: int = 0

    async def join(self) -> None:
        """Enrols and opens a session, as device/client.py does."""
        challenge = (await self._post("/v1/challenges", None, http.Challenge)).challenge
        mine = http.Enrolment(FOUNDING.deployment, self.identity.public, "", challenge)
        signed = http.SignedEnrolment(mine, self.identity.sign(encode(mine)))
        await self._post("/v1/devices", signed, http.Done)
        challenge = (await self._post("/v1/challenges", None, http.Challenge)).challenge
        claim = http.Claim(FOUNDING.deployment, self.identity.public, challenge)
        said = http.SignedClaim(claim, self.identity.sign(encode(claim)))
        self.token = (await self._post("/v1/sessions", said, http.Session)).token

    async def come(self) -> bytes:
        """Through invitation and roster to its boxes: the body of the request that hands them in."""
        invitation = await self._message()
        assert isinstance(invitation, Invitation)
        value, task = np.zeros(TERMS.length, dtype=np.uint64), task_of(invitation.round, invitation.sender)
        self.member = Member(task, identity=self.identity, value=value, entropy=self.rng.bytes(ENTROPY))
        roster = await self._message(*self._said(invitation))
        assert isinstance(roster, Roster)
        of, mine = roster.round, next(one.position for one in roster.listed if one.name == self.identity.public)
        self.place = {"sum": f"{of.number}", "position": str(mine)}
        return self._mail(*self._said(roster))

    def asking(self, body: bytes, **others: str) -> bytes:
        return request("/v1/mail", body, {"authorization": f"{BEARER} {self.token}", **others})

    def opened(self, answer: bytes) -> Delivery:
        letter = msgspec.msgpack.decode(answer, type=Inbox).messages[0]
        self.after, delivery = letter.number, decode(letter.body)
        assert isinstance(delivery, Delivery)
        return delivery

    def _mail(self, *messages: bytes) -> bytes:
        return encode(Mail(messages, self.after, http.MOST_SECONDS))

    def _said(self, heard: AnyMessage) -> list[bytes]:
        return [encode(action.message) for action in self.member.receive(heard) if isinstance(action, Send)]

    async def _message(self, *messages: bytes) -> AnyMessage:
        while True:
            post = msgspec.msgpack.decode(await self.service.ask(self.asking(self._mail(*messages))), type=Inbox)
            assert not post.refused
            if post.messages:
                self.after = post.messages[0].number
                return decode(post.messages[0].body)
            messages = ()

    async def _post(self, path: str, content: WireStruct | None, kind: type[Answer]) -> Answer:
        body = b"" if content is None else encode(content)
        return msgspec.msgpack.decode(await self.service.ask(request(path, body, {})), type=kind)
