"""A bare relay, to measure the service against: python bare_relay.py '{"certificate": ..., "key": ..., "devices": ...}'

Boxes wait in a dictionary for whoever they are for, until all devices of a sum have handed theirs in. It knows nobody,
looks at nothing and keeps nothing. It imports nothing of PriRec's: a small process is quicker through its garbage.
"""

import asyncio
import json
import os
import ssl
import sys
from collections import defaultdict
from threading import Thread
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn import Config, Server


class OneSum:
    """Boxes by receiver, and whether all have come."""

    def __init__(self) -> None:
        self.boxes, self.came, self.complete = defaultdict[int, list[Any]](list), 0, asyncio.Event()


def app(devices: int) -> Starlette:
    sums = defaultdict[str, OneSum](OneSum)

    async def mail(request: Request) -> Response:
        of, at = sums[request.headers["sum"]], int(request.headers["position"])
        _, (message,), *_ = msgspec.msgpack.decode(await request.body())
        *_, signature, boxes, _ = msgspec.msgpack.decode(message)
        for to, sealed in boxes:
            of.boxes[to].append((at, sealed, signature))
        of.came += 1
        if of.came == devices:
            of.complete.set()
        await of.complete.wait()
        return Response(msgspec.msgpack.encode(of.boxes.pop(at)))

    return Starlette(routes=[Route("/v1/mail", mail, methods=["POST"])])


def context(certificate: str, key: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.load_cert_chain(certificate, key)
    return made


def main(certificate: str, key: str, devices: int) -> None:
    config = Config(
        app(devices), host="127.0.0.1", port=0, http="httptools", loop="uvloop", ws="none", lifespan="off",
        log_level="error", timeout_keep_alive=65, ssl_context_factory=lambda config, default: context(certificate, key),
    )  # fmt: skip
    config.load()
    listening = config.bind_socket()
    listening.listen(2048)
    print(json.dumps({"event": "serving", "port": listening.getsockname()[1]}), file=sys.stderr, flush=True)
    Server(config).run(sockets=[listening])


def until_let_go() -> None:
    """Ends with whoever started it."""
    while sys.stdin.buffer.read1():
        pass
    os._exit(1)


if __name__ == "__main__":
    Thread(target=until_let_go, daemon=True).start()
    main(**json.loads(sys.argv[1]))
