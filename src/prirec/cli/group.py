"""What happens when something is refused: one line on the standard error stream, and the code that says why."""

import errno
from typing import Any

import typer
from typer.core import TyperGroup

from prirec.cli.output import printable
from prirec.errors import PrirecError, StateError


class Commands(TyperGroup):
    """The program's commands; a refusal inside any of them ends here, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PrirecError as refusal:
            raise _told(str(refusal), refusal.exit_code) from None
        except OSError as broken:
            if broken.errno == errno.EPIPE or broken.filename is None:
                raise
            raise _told(f"{broken.filename}: {broken.strerror}", StateError.exit_code) from None


def _told(problem: str, code: int) -> typer.Exit:
    typer.echo(f"error: {printable(problem)}", err=True)
    return typer.Exit(code)
