"""The folder with a deployment's certificates: an authority of its own, which devices are told to trust, and the
server's certificate from it. Its keys are files for their owner alone.

A deployment with certificates of another authority has no such folder: `prirec recommender serve` is given its files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Final

from cryptography import x509

from prirec.errors import StateError
from prirec.recommender import tls
from prirec.recommender.database import file_of
from prirec.recommender.tls import Pair

LOCAL: Final = ("localhost", "127.0.0.1", "::1")  # a server is always reached from its own machine
ELSEWHERE: Final = Path("prirec.tls")  # for a store that is no file


@dataclass(frozen=True, slots=True)
class Certificates:
    folder: Path

    @classmethod
    def beside(cls, store: str) -> "Certificates":
        """Where they are unless somebody says otherwise: beside the file, or here."""
        file = file_of(store)
        return cls(ELSEWHERE if file is None else file.with_name(f"{file.name}.tls"))

    @property
    def authority(self) -> Path:
        """What devices are handed: public."""
        return self.folder / "authority.pem"

    @property
    def certificate(self) -> Path:
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        return self.folder / "server.key"

    @property
    def _authority_key(self) -> Path:
        return self.folder / "authority.key"

    def make(self, *, title: str, hosts: Sequence[str], now: datetime) -> None:
        """An authority and the server's first certificate. UsageError if there are some already."""
        issuer = tls.authority(title, now=now)
        server = tls.server(issuer, hosts=_with_local(hosts), now=now)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        issuer.write(self.authority, self._authority_key)
        server.write(self.certificate, self.key)

    def renew(self, *, hosts: Sequence[str], now: datetime) -> None:
        """Another key and certificate for the server, from the same authority: devices need not be told. For the names
        of the present one where none are given."""
        named = _with_local(hosts) if hosts else _hosts(_certificate(self.certificate))
        server = tls.server(Pair(_read(self.authority), _read(self._authority_key)), hosts=named, now=now)
        certificate, key = (path.with_name(f"{path.name}.new") for path in (self.certificate, self.key))
        for left in (certificate, key):  # by somebody who was cut short
            left.unlink(missing_ok=True)
        server.write(certificate, key)
        key.replace(self.key)
        certificate.replace(self.certificate)


def ends(certificate: Path) -> datetime:
    """The moment from which devices refuse a certificate."""
    return _certificate(certificate).not_valid_after_utc


def _with_local(hosts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*hosts, *LOCAL]))


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses: list[IPv4Address | IPv6Address] = [
        one for one in names.get_values_for_type(x509.IPAddress) if isinstance(one, IPv4Address | IPv6Address)
    ]
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise StateError(f"{path.name} is not a certificate (PEM)") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StateError(
            f"there is no {path.name} in {path.parent.name}; prirec recommender init makes one, or name your own"
        ) from None
