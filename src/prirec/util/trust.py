"""Addresses and CA certificates that people give: checks, and the TLS context that trusts such a certificate."""

import re
import ssl
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from prirec.errors import UsageError

LARGEST_CERTIFICATE = 100_000  # bytes of a PEM file
_HOST = re.compile(r"[a-z0-9_.-]+|[0-9a-f:.]+")  # a name in ASCII or an IPv4 address; an IPv6 address


def https_address(text: str) -> SplitResult | None:
    """The parts of an https address. None for any other text, and for an address with a user, a query or a fragment."""
    if not text.isprintable() or set(text) & set(" ?#"):  # a line break, or a query that is empty, urlsplit drops
        return None
    try:
        parts = urlsplit(text)
        named = parts.scheme == "https" and _HOST.fullmatch(parts.hostname or "") and parts.port != 0
    except ValueError:  # a port beyond 65535, half an IPv6 address
        return None
    return parts if named and "@" not in parts.netloc else None


def read_authority(path: Path) -> bytes:
    """Read a file with a CA certificate."""
    if not path.is_file():  # a pipe to which nobody writes would be read for ever
        raise UsageError(f"there is no file {path.name} with an authority's certificate")
    with path.open("rb") as file:
        found = file.read(LARGEST_CERTIFICATE + 1)
    if len(found) > LARGEST_CERTIFICATE or not found:
        raise UsageError(f"{path.name} is not an authority's certificate (PEM)")
    return found


def tls_context(authority: bytes = b"") -> ssl.SSLContext:
    """TLS 1.3 with this CA certificate (PEM) as the only authority, or with the system's authorities if it is empty.
    UsageError for what is no certificate."""
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    except (ssl.SSLError, ValueError):
        raise UsageError("the authority is not a certificate (PEM), such as the operator hands out") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
