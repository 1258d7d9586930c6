"""Errors by who is to blame, each with the exit code of the command line. No text here ever echoes a private value."""

from enum import StrEnum
from pathlib import Path


class PrirecError(Exception):
    """Anything that PriRec refuses on purpose."""

    exit_code = 1


class UsageError(PrirecError):
    """The caller asked for something that cannot be."""

    exit_code = 2


class DataError(PrirecError):
    """A file is not what it should be; the text names file, line and column, never a private value."""

    exit_code = 3

    def __init__(self, problem: str, *, file: Path | None = None, line: int | None = None, column: str | None = None):
        place = [file.name] if file is not None else []
        place += [f"line {line}"] if line is not None else []
        place += [f"column '{column}'"] if column is not None else []
        super().__init__(f"{', '.join(place)}: {problem}" if place else problem)
        self.file, self.line, self.column = file, line, column


class PolicyError(PrirecError):
    """A request that would break a promise made to people."""

    exit_code = 4


class StateError(PrirecError):
    """What is on disk is damaged, newer than this program, or from another run."""

    exit_code = 5


class PassingError(StateError):
    """The disk is full, the database is away, or another process is writing: the same may work later."""


class ProtocolError(PrirecError):
    """A protocol was not followed."""

    exit_code = 6


class Fault(StrEnum):
    """What the other side did; the words are the same whoever is on the other side."""

    AUTH = "AUTH"  # unknown party, bad signature, bad key, a box that does not open
    PARAMS_MISMATCH = "PARAMS_MISMATCH"  # other terms, another roster or another V than ours
    DECODE = "DECODE"  # not exactly one message
    EQUIVOCATION = "EQUIVOCATION"  # two different messages where there may be one
    ORDER = "ORDER"  # not now, not from this party, or of another round
    PROOF = "PROOF"  # a report that is not what it proves to be
    ABORTED = "ABORTED"  # too few are left, or what they sent does not fit together


class PeerError(ProtocolError):
    """The other side did not follow the protocol. Its message is refused, and nothing has changed by it."""

    def __init__(self, fault: Fault, problem: str):
        super().__init__(f"{fault}: {problem}")
        self.fault = fault
