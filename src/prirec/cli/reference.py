"""docs/reference/cli.md, from the program itself: python -m prirec.cli.reference > docs/reference/cli.md"""

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from prirec.cli.main import app

INTRODUCTION = """# The command line

Generated from the program: `python -m prirec.cli.reference > docs/reference/cli.md`.

Exit codes: 0 done, 2 usage, 3 data, 4 policy, 5 state or integrity, 6 protocol, 130 stopped with Ctrl-C.
Answers go to the standard output, notes and progress to the standard error stream."""


def reference() -> str:
    """Every command with its arguments, options and examples, as Markdown."""
    command = get_command(app)
    pages = _pages(command, typer.Context(command, info_name="prirec", **command.context_settings))
    return "\n\n".join((INTRODUCTION, *pages)) + "\n"


def _pages(command: Any, context: Any) -> Iterator[str]:
    yield "\n\n".join(_page(command, context))
    for name, inner in getattr(command, "commands", {}).items():
        yield from _pages(inner, type(context)(inner, info_name=name, parent=context))


def _page(command: Any, context: Any) -> Iterator[str]:
    usage = " ".join((context.command_path, *command.collect_usage_pieces(context)))
    yield f"## {context.command_path}"
    yield f"```\n{usage}\n```"
    yield command.help or ""
    if names := getattr(command, "commands", {}):
        yield "\n".join(f"- `{name}`: {inner.get_short_help_str(200)}" for name, inner in names.items())
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    yield "\n".join(f"- `{record[0]}`: {' '.join(record[1].split())}" for record in records if record is not None)
    if command.epilog:
        _, first, *lines = command.epilog.split("\n")
        yield first
        yield "\n".join(("```", *(line.strip() for line in lines), "```"))


if __name__ == "__main__":
    typer.echo(reference(), nl=False)
