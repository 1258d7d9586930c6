"""Other processes, each with a text of its own: to share a journal with, or to be killed over one."""

import subprocess
import sys
from pathlib import Path

from support.waiting import PATIENCE

HEAD = f"""
import os, resource, signal, sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from prirec.device.store import Store
from prirec.errors import StateError
from prirec.protocols.party import Persist, Stage
from support.processes_to_kill import dying_at, outlive, say, write_until
from support.journals import LEDGER, ONE, life, of

folder = Path(sys.argv[1])
"""


def start(text: str, *arguments: object) -> "subprocess.Popen[str]":
    """The first argument is the folder to work in."""
    command = [sys.executable, "-c", HEAD + text, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> list[str]:
    """What it said, line by line."""
    out, err = process.communicate(timeout=PATIENCE)
    if (process.returncode, err) != (0, ""):
        raise AssertionError(f"the process ended with {process.returncode}: {err}")
    return out.splitlines()


def ends(process: "subprocess.Popen[str]") -> tuple[list[int], int]:
    """Of a process that lets others die, one at each point: the points at which they did, and the first that one
    outlived."""
    *killed, last = (line.split() for line in finish(process))
    if {ending for _, ending in killed} != {"True"} or last[1] != "False":
        raise AssertionError("a life ended otherwise than by its kill, or none outlived its point")
    return [int(point) for point, _ in killed], int(last[0])
