"""Pages are built into wheel and source distribution, and served with strict headers."""

import asyncio
import gzip
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from prirec import pages
from prirec.errors import StateError, UsageError
from prirec.pages import PageServer, built, security_headers
from support import messages

ROOT = Path(__file__).parents[2]


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """An answer: status, headers, body."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        raise AssertionError("a page reads no body")

    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    asyncio.run(server({"type": "http", "method": method, "path": path, "headers": given}, receive, send))
    start, body = sent
    named = {name.decode(): value.decode() for name, value in start["headers"]}
    assert len(named) == len(start["headers"])
    return start["status"], named, body["body"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text("<!doctype html>" + "<p>words</p>" * 100)
    (tmp_path / "main-ABCD2345.js").write_text("export {};" * 100)
    (tmp_path / "service_worker.js").write_text("self;" * 100)
    return tmp_path


def test_a_page_is_served_with_strict_headers_whatever_is_asked_for(folder: Path) -> None:
    server = PageServer(folder, connect=["https://places.example:8443"])
    for path in ("/", "/main-ABCD2345.js", "/no-such", "/../secret", "/%2e%2e/secret"):
        _, headers, _ = ask(server, path)
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'self'"
        assert policy["connect-src"] == "'self' https://places.example:8443"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_bundles_are_kept_for_ever_and_nothing_else_is(folder: Path) -> None:
    server = PageServer(folder)
    assert "immutable" in ask(server, "/main-ABCD2345.js")[1]["cache-control"]
    for path in ("/", "/index.html", "/service_worker.js"):
        assert ask(server, path)[1]["cache-control"] == "no-cache"


def test_what_a_browser_has_is_not_sent_again_and_text_is_packed(folder: Path) -> None:
    server = PageServer(folder)
    status, headers, body = ask(server, "/")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert body == (folder / "index.html").read_bytes()
    assert ask(server, "/", if_none_match=headers["etag"])[::2] == (304, b"")
    _, packed, smaller = ask(server, "/", accept_encoding="gzip, br")
    assert (packed["content-encoding"], gzip.decompress(smaller)) == ("gzip", body)
    assert len(smaller) < len(body)
    assert ask(server, "/", "HEAD")[2] == b""


def test_what_is_not_there_is_not_found_and_nothing_is_posted(folder: Path) -> None:
    server = PageServer(folder, extra={"extra.json": b"{}"})
    (folder / "later.html").write_text("made after the start")
    assert ask(server, "/later.html")[0] == 404
    assert ask(server, "/../pyproject.toml")[0] == 404
    assert ask(server, "/", "POST")[0] == 405
    assert ask(server, "/extra.json")[::2] == (200, b"{}")


@pytest.mark.parametrize("origin", ["*", "https://a.example; script-src *", "https://a.example/path", "a.example", ""])
def test_an_origin_that_would_loosen_the_policy_is_refused(origin: str) -> None:
    with pytest.raises(UsageError, match=messages.NOT_AN_ORIGIN):
        security_headers([origin])


def test_a_page_that_is_not_built_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pages, "BUILT", tmp_path)
    with pytest.raises(StateError, match=messages.PAGE_NOT_BUILT):
        built("app")


def test_no_built_page_has_an_inline_script_or_a_foreign_address() -> None:
    for page in sorted(built("app").parent.iterdir()):
        html = (page / "index.html").read_text()
        assert html.count("<script") == html.count('<script type="module" src="main-')
        assert "style=" not in html
        assert "://" not in html
        assert "{{" not in html


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that a build starts from, so that this checkout's own pages stay as they are."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "CHANGELOG.md"):
        shutil.copy(ROOT / name, copy)
    left_out = shutil.ignore_patterns("__pycache__", "built")
    shutil.copytree(ROOT / "src/prirec/pages", copy / "src/prirec/pages", ignore=left_out)
    shutil.copy(ROOT / "src/prirec/__init__.py", copy / "src/prirec")
    (copy / "src/prirec/device").mkdir()
    shutil.copy(ROOT / "src/prirec/device/who_learns_what.json", copy / "src/prirec/device")
    shutil.copytree(ROOT / "web", copy / "web", ignore=shutil.ignore_patterns("node_modules"))
    (copy / "web/node_modules").symlink_to(ROOT / "web/node_modules")
    return copy


def build(where: Path, target: str) -> Path:
    """A distribution, made by this environment's hatchling."""
    words = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", "made"]
    done = subprocess.run(words, cwd=where, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (where / "made").glob("*.whl" if target == "wheel" else "*.tar.gz")
    return found


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as held:
        return {name: held.read(name) for name in held.namelist() if "/pages/built/" in name}


def test_wheel_and_source_distribution_contain_the_pages_and_a_build_from_the_latter_needs_no_node(
    checkout: Path, tmp_path: Path
) -> None:
    in_wheel = contents(build(checkout, "wheel"))
    names = {Path(name).relative_to("prirec/pages/built").as_posix() for name in in_wheel}
    assert {"app/index.html", "app/service_worker.js", "app/manifest.webmanifest", "app/licences.txt"} <= names
    with tarfile.open(build(checkout, "sdist")) as held:
        held.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    assert not (unpacked / "web").exists()
    assert contents(build(unpacked, "wheel")) == in_wheel
