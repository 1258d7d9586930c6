"""Both operators' pages, as their services serve them over TLS, in the middle of a campaign."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec

from prirec.protocols.codec import encode
from prirec.recommender import tls
from prirec.recommender.server import Worker, running
from prirec.recommender.store import Store
from support.operator_pair import HOUR, OperatorPair
from support.services import OPEN
from support.waiting import PATIENCE

REPORTED = 3  # reports in the window that is open
LIAR = 7


@dataclass(frozen=True)
class ServedPage:
    """One operator's page, its store and its token."""

    store: Store
    token: str
    public: str
    address: str  # of the operator's port
    line: httpx.Client

    def log_in(self, token: str | None = None, **headers: str) -> httpx.Response:
        """As a browser does from the page."""
        body = msgspec.json.encode({"token": token or self.token})
        given = {"origin": self.address, "content-type": "application/json", **headers}
        return self.line.post("/operator/login", content=body, headers=given)


@dataclass(frozen=True)
class Pages:
    pair: OperatorPair
    recommender: ServedPage
    helper: ServedPage


@contextmanager
def operator_pages(folder: Path) -> Iterator[Pages]:
    """The window of the second round is open, and one device has lied in a sum before."""
    pair = OperatorPair(folder)
    campaign_under_way(pair)
    now = datetime.fromtimestamp(pair.now, UTC)
    made = tls.new_authority("a town", now=now)
    made.write(folder / "authority.pem", folder / "authority.key")
    server = tls.server_certificate(made, hosts=["127.0.0.1"], now=now)
    server.write(folder / "server.pem", folder / "server.key")
    with ExitStack() as stack:

        def served(who: str, store: Store) -> ServedPage:
            worker = Worker(
                str(folder / f"{who}.db"), folder / "server.pem", folder / "server.key", limits=OPEN,
                authority=folder / "authority.pem", clock=lambda: pair.now,
            )  # fmt: skip
            public, port = stack.enter_context(running(worker, operator=("127.0.0.1", 0)))
            address = f"https://127.0.0.1:{port}"
            # the certificate is of the deployment's time, not of today
            line = httpx.Client(base_url=address, verify=False, trust_env=False, timeout=PATIENCE)  # noqa: S501
            stack.enter_context(line)
            return ServedPage(store, store.logins.new_token(), f"https://127.0.0.1:{public}", address, line)

        yield Pages(pair, served("leader", pair.leading), served("helper", pair.helping))


def campaign_under_way(pair: OperatorPair) -> None:
    pair.begin()
    for who in ((0, 1, 2, 3, 4, 5, 6), (0, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5)):
        pair.run()
        pair.post(*who)
        lie(pair)
        pair.run()
        pair.now += HOUR
        pair.run()
    pair.post(*range(REPORTED))
    pair.leading.lease(b"the conductor", 1e9)


def lie(pair: OperatorPair) -> None:
    """A report whose box has been changed after it was made."""
    honest = pair.report(LIAR)
    box = bytes(reversed(honest.leader_box))
    report = msgspec.structs.replace(honest, leader_box=box)
    pair.leading.joint.post([(report, encode(report))], now=pair.now)
