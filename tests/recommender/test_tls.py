"""Certificates of an authority of one's own, and a server that speaks TLS 1.3 and nothing older."""

import re
import socket
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from prirec.errors import StateError, UsageError
from prirec.recommender import tls
from support import messages
from support.services import Served, Site, served
from support.waiting import PATIENCE

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_device_that_trusts_the_authority_reaches_the_server_over_tls_1_3(service: Served) -> None:
    for host in ("localhost", "127.0.0.1"):
        plain = socket.create_connection(("127.0.0.1", service.port))
        with plain, service.site.trust.wrap_socket(plain, server_hostname=host) as line:
            assert line.version() == "TLSv1.3"


def test_an_older_tls_is_refused(service: Served) -> None:
    context = ssl.create_default_context(cafile=service.site.folder / "authority.pem")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", service.port)) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain, server_hostname="localhost")


FULL_DISK = """
import resource, sys
from datetime import UTC, datetime
from pathlib import Path
from prirec.errors import StateError
from prirec.recommender.tls import Certificates

files = Certificates(Path(sys.argv[1]))
for room in (100, 400):  # not even a key, a key but no certificate
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    try:
        files.make(title="a city", hosts=[], now=datetime.now(UTC))
    except StateError as problem:
        print(problem, sorted(files.folder.iterdir()))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
files.make(title="a city", hosts=[], now=datetime.now(UTC))
print(len(list(files.folder.iterdir())))
"""


def test_where_certificates_do_not_fit_on_the_disk_none_is_left(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second, then = done.stdout.splitlines()
    assert re.match(messages.file_not_written("authority.key"), first)
    assert re.match(messages.file_not_written("authority.pem"), second)
    assert first.endswith("[]")
    assert second.endswith("[]")
    assert then == "4"


def test_without_tls_there_is_no_answer(service: Served) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as plain:
        plain.settimeout(PATIENCE)
        plain.sendall(b"GET /v1/deployment HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200" not in plain.recv(1000)
    assert service.line.get("/healthz").status_code == 200


def test_a_server_by_another_name_or_of_another_authority_is_not_believed(service: Served, tmp_path: Path) -> None:
    with socket.create_connection(("127.0.0.1", service.port)) as plain, pytest.raises(ssl.SSLCertVerificationError):
        service.site.trust.wrap_socket(plain, server_hostname="other.example")
    tls.new_authority("another", now=datetime.now(UTC)).write(tmp_path / "other.pem", tmp_path / "other.key")
    stranger = ssl.create_default_context(cafile=tmp_path / "other.pem")
    with pytest.raises(httpx.ConnectError, match=messages.Foreign.CERTIFICATE_VERIFY_FAILED):
        httpx.get(f"https://127.0.0.1:{service.port}/healthz", verify=stranger, trust_env=False)


def test_a_server_certificate_signs_no_others() -> None:
    authority = tls.new_authority("a city", now=NOW)
    server = x509.load_pem_x509_certificate(tls.server_certificate(authority, hosts=["a.example"], now=NOW).certificate)
    signer = x509.load_pem_x509_certificate(authority.certificate)
    server.verify_directly_issued_by(signer)
    constraints = [one.extensions.get_extension_for_class(x509.BasicConstraints).value for one in (server, signer)]
    assert [(one.ca, one.path_length) for one in constraints] == [(False, None), (True, 0)]
    assert not server.extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign


def test_names_and_addresses_are_what_was_asked_for() -> None:
    hosts = ["a.example", "my_host", "123456789012", "xn--mnster-3ya.example", "192.0.2.7", "2001:db8::7"]
    made = x509.load_pem_x509_certificate(
        tls.server_certificate(tls.new_authority("x", now=NOW), hosts=hosts, now=NOW).certificate
    )
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(name.value) for name in names] == hosts
    assert made.not_valid_before_utc < NOW < made.not_valid_after_utc
    assert made.not_valid_after_utc - NOW == timedelta(days=tls.SERVER_DAYS)


ODD = [
    "münster.example",
    "https://a.example",
    "a.example:8443",
    "a.example/x",
    "a..example",
    "-a",
    "a b",
    "*.example",
    "1.2.3",
]


@pytest.mark.parametrize("hosts", [[], *([one] for one in ODD), ["a.example", "[::1]"], ["x" * 64], ["a." * 127 + "a"]])
def test_a_server_without_a_name_that_a_certificate_can_hold_is_refused(hosts: list[str]) -> None:
    with pytest.raises(UsageError):
        tls.server_certificate(tls.new_authority("x", now=NOW), hosts=hosts, now=NOW)


def test_keys_are_their_owners_alone_do_not_print_and_are_not_overwritten(tmp_path: Path) -> None:
    pair = tls.new_authority("x", now=NOW)
    pair.write(tmp_path / "one.pem", tmp_path / "one.key")
    assert stat.S_IMODE((tmp_path / "one.key").stat().st_mode) == 0o600
    assert b"PRIVATE KEY" in pair.key
    assert "PRIVATE KEY" not in repr(pair)
    with pytest.raises(UsageError, match=messages.file_there_already("one.key")):
        tls.new_authority("y", now=NOW).write(tmp_path / "two.pem", tmp_path / "one.key")
    assert (tmp_path / "one.key").read_bytes() == pair.key


def test_a_certificate_and_another_key_are_refused(site: Site) -> None:
    authority = tls.CertificatePair((site.folder / "authority.pem").read_bytes(), b"nothing")
    with pytest.raises(StateError):
        tls.server_certificate(authority, hosts=["a.example"], now=NOW)
    for certificate, key in (
        ("server.pem", "authority.key"),
        ("absent.pem", "server.key"),
        ("server.key", "server.key"),
    ):
        with pytest.raises(StateError, match=messages.certificate_or_key_unreadable(certificate)):
            tls.server_context(site.folder / certificate, site.folder / key)
    with pytest.raises(StateError), served(site, key=site.folder / "authority.key"):
        pass
