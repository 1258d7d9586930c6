"""TLS for servers that a benchmark starts: a certificate for this machine, in a folder of its own."""

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
class ServerCertificate:
    folder: Path
    authority: bytes  # PEM

    @property
    def files(self) -> dict[str, str]:
        """The files, as servers of this folder are given them."""
        return {"certificate": str(self.folder / "server.pem"), "key": str(self.folder / "server.key")}

    @property
    def client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority.decode("ascii"))
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


@contextmanager
def server_certificate(*, where: Path | None = None) -> Iterator[ServerCertificate]:
    with TemporaryDirectory(prefix="prirec-benchmark-", dir=where) as name:
        folder, now = Path(name), datetime.now(UTC)
        authority = tls.new_authority("a benchmark", now=now)
        tls.server_certificate(authority, hosts=["localhost", "127.0.0.1"], now=now).write(
            folder / "server.pem", folder / "server.key"
        )
        yield ServerCertificate(folder, authority.certificate)
