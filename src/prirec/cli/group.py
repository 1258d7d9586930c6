"""What happens when something is refused: one line on the standard error stream, and the code that says why."""

import errno
import os
import sys
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperGroup

from prirec.cli.output import printable
from prirec.errors import PrirecError, StateError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
HELP = {"help_option_names": ["-h", "--help"]}


def subgroup(words: str, *, epilog: str | None = None) -> typer.Typer:
    """Commands under one name; alone, it shows its help."""
    return typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help=words, epilog=epilog, context_settings=HELP
    )  # fmt: skip


class Commands(TyperGroup):
    """The program's commands; a refusal inside any of them ends here, without a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as broken:
            if broken.errno not in FULL:
                raise
            with suppress(OSError):  # the standard error stream may go to the same device
                _told(f"the output could not be written whole: {broken.strerror}", StateError.exit_code)
            _let_go_of_output()
            sys.exit(StateError.exit_code)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PrirecError as refusal:
            raise _told(str(refusal), refusal.exit_code) from None
        except OSError as broken:
            if broken.errno == errno.EPIPE or broken.filename is None:
                raise
            raise _told(f"{broken.filename}: {broken.strerror}", StateError.exit_code) from None


def _let_go_of_output() -> None:
    """What could not be written is still held, and would be tried again, with a complaint, when the program ends."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _told(problem: str, code: int) -> typer.Exit:
    typer.echo(f"error: {printable(problem)}", err=True)
    return typer.Exit(code)
