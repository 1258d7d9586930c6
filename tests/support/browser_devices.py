"""TypeScript devices in tabs of headless Chromium, for a deployment of a test: web/test/devices.ts.

The page's origin is one that the service lets in (CORS), and the browser takes the one certificate of the deployment by
the hash of its key: a pin, for tests only."""

import json
import socket
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from support.waiting import PATIENCE
from support.web import NODE, WEB, chromium


class RefusedInBrowserError(Exception):
    """What a device in a tab refused: the name of its error, and its words."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"{name}: {words}")
        self.name, self.words = name, words


class Browser:
    """Asks tabs; each may have many devices, whose stores all tabs share."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process, self._next = process, 0
        self._answers: dict[int, dict[str, Any]] = {}
        self._came = threading.Condition()
        self._ended = False
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def ask(self, tab: str, device: str, method: str, *given: Any) -> Any:
        """The answer; `RefusedInBrowserError` for what the device refuses."""
        return self.answer(self.begin(tab, device, method, *given))

    def begin(self, tab: str, device: str, method: str, *given: Any) -> int:
        """A question, to be answered later."""
        self._next += 1
        question = {"id": self._next, "tab": tab, "device": device, "method": method, "given": list(given)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        return self._next

    def answer(self, number: int) -> Any:
        with self._came:
            self._came.wait_for(lambda: number in self._answers or self._ended, timeout=PATIENCE)
            found = self._answers.pop(number)
        if (problem := found.get("problem")) is not None:
            raise RefusedInBrowserError(problem["name"], problem["message"])
        return found.get("answer")

    def close(self) -> None:
        """The browser ends when nobody asks any more."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reading.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = json.loads(line)
            with self._came:
                self._answers[found.get("id", 0)] = found
                self._came.notify_all()
        with self._came:
            self._ended = True
            self._came.notify_all()


def free_origin() -> tuple[int, str]:
    """A port for the page, and the origin that the page then has: the service has to know it first."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    return port, f"http://127.0.0.1:{port}"


def pin_of(certificate: Path) -> str:
    """The hash of the key of a deployment's service, as Chromium takes it."""
    key = x509.load_pem_x509_certificate(certificate.read_bytes()).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return b64encode(sha256(spki).digest()).decode("ascii")


@contextmanager
def browser(certificate: Path, folder: Path, *, port: int) -> Iterator[Browser]:
    """One browser; `certificate` is that of the deployment's service."""
    words = [NODE, "test/devices.ts", chromium(), pin_of(certificate), str(folder / "browser"), str(port)]
    process = subprocess.Popen(words, cwd=WEB, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    found = Browser(process)
    try:
        assert found.answer(0) is None  # it listens
        yield found
    finally:
        found.close()
