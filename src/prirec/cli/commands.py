"""Groups of commands, and the one form that all refusals have: a line that begins with `error:`, with what was meant.

Typer brings a parser of its own, whose exceptions it does not export: they are known by their base class and texts.
"""

import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, cast

import typer
from typer.core import TyperGroup

from prirec.cli.options import examples
from prirec.errors import PrirecError, StateError, UsageError
from prirec.util.files import FULL
from prirec.util.shown import printable

HELP = {"help_option_names": ["-h", "--help"]}
PARSER_ERROR: type[Exception] = typer.BadParameter.__bases__[0]  # the base of all, which Typer does not export
_WORDS = "prirec.words"  # of the command line, in the program's context
_COMMAND = re.compile(r"No such command '(?P<word>.*?)'")
_OPTION = re.compile(r"No such option:? '?(?P<word>-[^\s']*)")
_NO_VALUE = re.compile(r"Option '(?P<name>-[^']*)' requires an argument")
_VALUE = re.compile(r"Invalid value for '(?P<name>[^']*)'.*?: '.*' is not a valid (?P<kind>\w+)", re.DOTALL)
_WANTED = {"int": "a whole number", "float": "a number", "boolean": "true or false"}
_BEYOND = re.compile(
    r"Invalid value for '(?P<name>[^']*)'.*?: (?P<value>\S+) is not in the range (?P<range>\S+)", re.DOTALL
)
_LEAST, _MOST = re.compile(r"(?:^|x>=)(?P<bound>[\d.]+)"), re.compile(r"x<=(?P<bound>[\d.]+)")
_CHOICE = re.compile(r"(?P<where>.*): (?:Value error, )?'(?P<word>.*)' is not one of (?P<choices>'.*')")


def subgroup(words: str, *, epilog: str | None = None) -> typer.Typer:
    """Commands under one name; alone, it shows its help."""
    return typer.Typer(
        no_args_is_help=True, rich_markup_mode=None, help=words, epilog=epilog, context_settings=HELP
    )  # fmt: skip


def add_commands(
    group: typer.Typer, path: str, commands: "Mapping[str, tuple[Callable[..., None] | str, ...]]"
) -> None:
    """Add commands to a group by name: each is a function, and then examples of its arguments for the help."""
    for name, (function, *arguments) in commands.items():
        lines = examples(*(f"{path} {name} {words}" for words in arguments))
        group.command(name, epilog=lines)(cast("Callable[..., None]", function))


class Commands(TyperGroup):
    """The program's commands; a refusal inside any of them ends here, without a traceback."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as broken:
            if broken.errno not in FULL:
                raise
            with suppress(OSError):  # the standard error stream may go to the same device
                _refused(f"the output could not be written whole: {broken.strerror}", StateError.exit_code)
            _let_go_of_output()
            sys.exit(StateError.exit_code)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _in_one_form():
            return super().make_context(*args, **kwargs)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        ctx.meta[_WORDS] = args
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _in_one_form(ctx):
                return super().invoke(ctx)
        except PrirecError as refusal:
            raise _refused(str(refusal), refusal.exit_code) from None
        except OSError as broken:
            if broken.errno == errno.EPIPE or broken.filename is None:
                raise
            raise _refused(f"{broken.filename}: {broken.strerror}", StateError.exit_code) from None


@contextmanager
def _in_one_form(program: Any = None) -> Iterator[None]:
    """A refusal of the parser becomes a line like all others; a group of commands alone still shows its help."""
    try:
        yield
    except PARSER_ERROR as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands that was named alone shows what is in it
            raise
        raise _refused(_problem_of(error, program), UsageError.exit_code) from None


def _let_go_of_output() -> None:
    """What could not be written is still held, and would be tried again, with a complaint, when the program ends."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _refused(problem: str, code: int) -> typer.Exit:
    typer.echo(f"error: {printable(problem)}", err=True)
    return typer.Exit(code)


def _problem_of(error: Any, program: Any) -> str:
    """What is wrong with the words of a command line, for somebody who is to write them again."""
    from prirec.util.sentences import listed, suggest

    message, context = error.format_message().rstrip("."), error.ctx
    if program is not None and (found := _NO_VALUE.match(message)):  # an error that does not say of which command
        return _value_missing(found["name"], program)
    if context is None:
        return _plain(message)
    if found := _COMMAND.match(message):
        known = context.command.list_commands(context)
        return f"there is no command '{found['word']}'; {suggest(found['word'], known)}"
    if found := _OPTION.match(message):
        named = [name for one in context.command.get_params(context) for name in (*one.opts, *one.secondary_opts)]
        known = [name for name in named if name.startswith("--")]
        return f"there is no option {found['word']}; {suggest(found['word'], known)}"
    if problem := _not_a_number(message):
        return f"{problem}; `{context.command_path} --help` says more"
    if found := _CHOICE.match(message):
        choices = re.findall("'(.*?)'", found["choices"])
        meant = suggest(found["word"], choices)
        meant = f"; {meant}" if meant.startswith("did you mean") else ""
        return f"{_plain(found['where'])}: '{found['word']}' is not one of {listed(choices)}{meant}"
    return f"{_plain(message)}; `{context.command_path} --help` says more"


def _value_missing(name: str, program: Any) -> str:
    """Which value an option takes, as an example in the command's help has it."""
    command = program.command
    for word in program.meta[_WORDS]:
        command = getattr(command, "commands", {}).get(word, command)
    option = next(one for one in command.get_params(program) if name in one.opts)
    shown = re.search(rf"{name} (?!-)\S+", command.epilog or "")
    such = f", such as {shown[0]}" if shown else ""
    return f"a value is missing behind {name}: {option.metavar or 'VALUE'}{such}"


def _not_a_number(message: str) -> str:
    """What an option takes, where it was given something else or a number beyond its bounds; else empty."""
    if found := _VALUE.match(message):
        return f"{found['name']} takes {_WANTED[found['kind']]}"
    if found := _BEYOND.match(message):
        if (least := _LEAST.search(found["range"])) and float(found["value"]) < float(least["bound"]):
            return f"{found['name']} is at least {least['bound']}"
        if most := _MOST.search(found["range"]):
            return f"{found['name']} is at most {most['bound']}"
    return ""


def _plain(message: str) -> str:
    """Without capital letters that belong to another form, and without quotes around a flag."""
    message = re.sub(
        r"'(-[^']*)'( / '-[^']*')*", r"\1", message.replace("Value error, ", "").replace("Invalid value for ", "")
    )
    return message[:1].lower() + message[1:]
