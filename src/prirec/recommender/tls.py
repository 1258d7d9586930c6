"""TLS 1.3 and nothing older; and for a first deployment a certificate authority of its own, which devices trust.

A certificate only tells a device that it talks to the right machine. Whether it talks to the right recommender it knows
by the recommender's identity key, which it pinned when it joined.
"""

import os
import re
import ssl
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from prirec.errors import StateError, UsageError
from prirec.recommender.database import sqlite_path

AUTHORITY_DAYS: Final = 3650
SERVER_DAYS: Final = 825  # more, and some clients refuse it
_LABEL: Final = "[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
# A name that ends in a number is a mistyped IP address.
_HOST: Final = re.compile(rf"(?:(?:{_LABEL}\.)+(?![0-9]+$))?{_LABEL}")
_EARLIER: Final = timedelta(hours=1)  # not valid before: a device's clock may be slow


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)

    def write(self, certificate: Path, key: Path) -> None:
        """Both as new files, the key for its owner alone. UsageError if there are such files already; StateError, and
        neither is there, if they cannot be written."""
        made = list[Path]()
        try:
            for path, mode, content in ((key, 0o600, self.key), (certificate, 0o644, self.certificate)):
                # O_EXCL with the mode: the key is never readable by others, not even for a moment.
                handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                made.append(path)
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(handle)
        except FileExistsError:
            _remove(made)
            raise UsageError(f"{path.name} is there already; move it away or name another folder") from None
        except OSError as problem:
            _remove(made)
            raise StateError(f"{path.name} could not be written ({problem.strerror}); look at the disk") from None


def new_authority(title: str, *, now: datetime) -> CertificatePair:
    """A new certificate authority, for one deployment."""
    # path_length=0: it signs servers, and no further authorities.
    extensions = [(x509.BasicConstraints(ca=True, path_length=0), True), (_usage(signing=True), True)]
    return _issue(f"PriRec development authority, {title}", extensions, now=now, days=AUTHORITY_DAYS)


def server_certificate(of: CertificatePair, *, hosts: Sequence[str], now: datetime) -> CertificatePair:
    """A certificate for the server with these host names and addresses, signed by an authority."""
    if not hosts:
        raise UsageError("a server has at least one name or address by which devices reach it")
    issuer, issuer_key = _loaded(of)
    extensions = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signing=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_general(host) for host in hosts]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), False),
    ]
    return _issue(hosts[0], extensions, now=now, days=SERVER_DAYS, issuer=(issuer.subject, issuer_key))


def check_hosts(hosts: Sequence[str]) -> None:
    """UsageError for host names that no certificate can be made for."""
    for host in hosts:
        _general(host)


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """The server's side of TLS 1.3. StateError if the files are not a certificate and its key."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        made.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError):
        raise StateError(f"{certificate.name} and {key.name} cannot be read as a certificate and its key") from None
    return made


def _issue(
    subject: str, extensions: Sequence[tuple[x509.ExtensionType, bool]], *, now: datetime, days: int,
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
) -> CertificatePair:  # fmt: skip
    """A new key and its certificate, with these extensions (and whether each is critical); self-signed without an
    issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject[:64])])  # X.509 allows 64 characters
    issuer_name, issuer_key = issuer or (name, key)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension, critical in extensions:
        certificate = certificate.add_extension(extension, critical=critical)
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return CertificatePair(certificate.sign(issuer_key, SHA256()).public_bytes(Encoding.PEM), secret)


def _usage(*, signing: bool) -> x509.KeyUsage:
    """Key usage: to sign certificates, or the TLS handshake."""
    return x509.KeyUsage(
        digital_signature=not signing, key_cert_sign=signing, crl_sign=signing, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if len(host) > 253 or not _HOST.fullmatch(host):
        raise UsageError(
            "a server goes by a host name in ASCII, such as recommender.example, or by an IP address, such as "
            "192.0.2.7: without https://, port or path"
        )
    return x509.DNSName(host)


def _loaded(pair: CertificatePair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        key = load_pem_private_key(pair.key, password=None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return x509.load_pem_x509_certificate(pair.certificate), key
    except (ValueError, TypeError):
        pass
    raise StateError("the authority's files are not a certificate and its key; make a new authority")


# A deployment's certificate folder. A deployment with certificates from elsewhere has none: `prirec recommender serve`
# is given its files.


LOCAL: Final = ("localhost", "127.0.0.1", "::1")  # a server can always be reached from its own machine
DEFAULT_FOLDER: Final = Path("prirec.tls")  # for a store in PostgreSQL


@dataclass(frozen=True, slots=True)
class Certificates:
    """A folder with a deployment's certificate authority and server certificate; private keys are readable by their
    owner alone."""

    folder: Path

    @classmethod
    def beside(cls, store: str) -> "Certificates":
        """The default folder: beside the store's file, or in the working directory."""
        file = sqlite_path(store)
        return cls(DEFAULT_FOLDER if file is None else file.with_name(f"{file.name}.tls"))

    @property
    def authority(self) -> Path:
        """The authority's certificate, which devices are given: public."""
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
        """Make an authority and the server's first certificate. UsageError if there are some already."""
        issuer = new_authority(title, now=now)
        server = server_certificate(issuer, hosts=_with_local(hosts), now=now)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        issuer.write(self.authority, self._authority_key)
        try:
            server.write(self.certificate, self.key)
        except BaseException:
            _remove((self.authority, self._authority_key))
            raise

    def remove(self) -> None:
        """Delete what `make` has made."""
        _remove((self.authority, self._authority_key, self.certificate, self.key))

    def renew(self, *, hosts: Sequence[str], now: datetime) -> None:
        """Make another key and certificate for the server, from the same authority, so that devices notice nothing;
        for the host names of the present one where none are given."""
        named = _with_local(hosts) if hosts else _hosts(_certificate(self.certificate))
        server = server_certificate(
            CertificatePair(_read(self.authority), _read(self._authority_key)), hosts=named, now=now
        )
        certificate, key = (path.with_name(f"{path.name}.new") for path in (self.certificate, self.key))
        for left in (certificate, key):  # over from a renewal that was interrupted
            left.unlink(missing_ok=True)
        server.write(certificate, key)
        # A server that starts between the two finds a key and a certificate that do not match, and says so.
        key.replace(self.key)
        certificate.replace(self.certificate)


def expires_at(certificate: Path) -> datetime:
    """When a certificate expires; devices refuse it from then on."""
    return _certificate(certificate).not_valid_after_utc


def host_names(certificate: Path) -> frozenset[str]:
    """The names and addresses that a certificate is for, in small letters."""
    return frozenset(name.lower() for name in _hosts(_certificate(certificate)))


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _with_local(hosts: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*hosts, *LOCAL]))


def _hosts(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


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
