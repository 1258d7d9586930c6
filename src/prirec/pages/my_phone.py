"""My phone (web/app): the person's page, for one recommender. Served here for rehearsals, or copied for a host.

The page learns which recommender it is for from `recommender.json` beside it, and its headers let it connect to that
one alone. Whoever serves it can change it, so people get it from neither operator.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Final
from urllib.parse import urlencode

from prirec.errors import UsageError
from prirec.pages import PageServer, built, security_headers
from prirec.pages.local import origin_of, served
from prirec.util.trust import https_address

FILE: Final = "recommender.json"


@dataclass(frozen=True, slots=True)
class RecommenderAddress:
    """What a device needs to join: the recommender's address, and both operators' fingerprints."""

    url: str
    fingerprint: str
    helper: str

    def __post_init__(self) -> None:
        if self.fingerprint == self.helper:
            raise UsageError("both operators are said to have the same key; ask each of them for its own")

    @property
    def origin(self) -> str:
        """UsageError for an address that no device could join."""
        parts = https_address(self.url)
        if parts is None:
            raise UsageError("the address of a recommender begins with https:// and holds no name, password or query")
        return f"https://{parts.netloc}"

    def link(self, page: str) -> str:
        """To the page, with everything filled in. What follows # is sent to nobody."""
        given = {"url": self.url, "fingerprint": self.fingerprint, "helper": self.helper}
        return f"{page}/#{urlencode(given, safe=':/')}"


@contextmanager
def rehearsed(address: RecommenderAddress, listening: socket, *, seconds: int | None = None) -> Iterator[str]:
    """The page on this machine, while the context lasts: a link with which a person joins. The page says that it is for
    rehearsal. `seconds`: between two looks at the log, where windows are short."""
    told = {"url": address.url, "rehearsal": True} | ({} if seconds is None else {"seconds": seconds})
    page = PageServer(built("app"), connect=[address.origin], extra={FILE: json.dumps(told).encode()})
    with served(page, listening):
        yield address.link(origin_of(listening))


def copy(folder: Path, address: RecommenderAddress) -> tuple[str, ...]:
    """Writes the page into a new folder, for any host of static files; the headers that it has to be served with."""
    headers = security_headers([address.origin])
    if folder.exists():
        raise UsageError(f"{folder.name} exists; name another folder")
    told = {"url": address.url, "fingerprint": address.fingerprint, "helperFingerprint": address.helper}
    content = json.dumps(told, indent=2) + "\n"
    shutil.copytree(built("app"), folder)
    (folder / FILE).write_text(content, encoding="utf-8")
    return tuple(f"{name}: {value}" for name, value in headers.items())
