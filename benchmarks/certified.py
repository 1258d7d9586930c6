"""A folder with a server's certificate for this machine, and whose signature is to be trusted."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from prirec.recommender import tls

_MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory, where there is one
IN_MEMORY = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None


@dataclass(frozen=True)
class Certified:
    folder: Path
    authority: bytes  # PEM

    @property
    def files(self) -> dict[str, str]:
        """As tasks of servers name them."""
        return {"certificate": str(self.folder / "server.pem"), "key": str(self.folder / "server.key")}

    @property
    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode("ascii"))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


@contextmanager
def certified(*, where: Path | None = None) -> Iterator[Certified]:
    with TemporaryDirectory(prefix="prirec-benchmark-", dir=where) as name:
        folder, now = Path(name), datetime.now(UTC)
        authority = tls.new_authority("a benchmark", now=now)
        tls.server_certificate(authority, hosts=["localhost", "127.0.0.1"], now=now).write(
            folder / "server.pem", folder / "server.key"
        )
        yield Certified(folder, authority.certificate)
