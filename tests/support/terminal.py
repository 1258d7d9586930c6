"""The program at a real terminal: what was written to it, what is left on its screen, and what went elsewhere."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

PROGRAM = Path(sys.executable).with_name("prirec")
CODES = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")
PLAIN = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS", "LINES")


@dataclass(frozen=True)
class Seen:
    """A command that has ended."""

    code: int
    stdout: str  # as far as it was piped
    written: str  # to the terminal, with all its codes

    @property
    def frames(self) -> list[str]:
        """Every line that stood there for a while, without codes."""
        return [line for line in re.split(r"[\r\n]+", CODES.sub("", self.written)) if line.strip()]

    @property
    def screen(self) -> list[str]:
        """The lines that are left."""
        return [line.rstrip() for line in _drawn(self.written) if line.strip()]


def watch(*words: object, piped: bool) -> Seen:
    """Run the program at a terminal of 120 columns; with its output in a pipe, the terminal has its errors alone."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in PLAIN} | {"TERM": "xterm"}
    command = [str(PROGRAM), *map(str, words)]
    output = subprocess.PIPE if piped else theirs
    with subprocess.Popen(command, stdin=theirs, stdout=output, stderr=theirs, env=clean) as running:
        os.close(theirs)
        came: list[bytes] = []
        reader = Thread(target=_drain, args=(ours, came))
        reader.start()
        stdout = running.stdout.read() if running.stdout is not None else b""
        code = running.wait()
    reader.join()
    os.close(ours)
    return Seen(code, stdout.decode(), b"".join(came).decode())


def _drain(terminal: int, came: list[bytes]) -> None:
    """To the end, which Linux tells by an error: nobody holds the other side any more."""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            return
        if not part:
            return
        came.append(part)


def _drawn(written: str) -> list[str]:
    """What a terminal makes of it: returns, new lines, lines erased, and the cursor moved up; colours do nothing."""
    lines, row, column, at = [""], 0, 0, 0
    while at < len(written):
        if code := CODES.match(written, at):
            at = code.end()
            if code[2] == "A":
                row -= int(code[1] or 1)
            elif code[2] == "K":
                lines[row] = "" if code[1] == "2" else lines[row][:column]
            continue
        letter, at = written[at], at + 1
        if letter == "\r":
            column = 0
        elif letter == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        else:
            lines[row] = lines[row][:column].ljust(column) + letter + lines[row][column + 1 :]
            column += 1
    return lines
