"""What the parser of the command line refuses, in the one form that all refusals have: one line, with what was meant.

Typer brings a parser of its own, whose exceptions it does not export: they are known by their base class and texts.
"""

import re
from typing import Any

from prirec.util.suggest import listed, suggest

_COMMAND = re.compile(r"No such command '(?P<word>.*?)'")
_OPTION = re.compile(r"No such option:? '?(?P<word>-[^\s']*)")
_CHOICE = re.compile(r"(?P<where>.*): (?:Value error, )?'(?P<word>.*)' is not one of (?P<choices>'.*')")


def asks_for_help(error: Exception) -> bool:
    """Whether it is a group of commands that was named alone: the parser then shows what is in it."""
    return type(error).__name__ == "NoArgsIsHelpError"


def problem_of(error: Any) -> str:
    """What is wrong with the words of a command line, for somebody who is to write them again."""
    message, context = error.format_message().rstrip("."), error.ctx
    if context is None:
        return _plain(message)
    if found := _COMMAND.match(message):
        known = context.command.list_commands(context)
        return f"there is no command '{found['word']}'; {suggest(found['word'], known)}"
    if found := _OPTION.match(message):
        named = [name for one in context.command.get_params(context) for name in (*one.opts, *one.secondary_opts)]
        known = [name for name in named if name.startswith("--")]
        return f"there is no option {found['word']}; {suggest(found['word'], known)}"
    if found := _CHOICE.match(message):
        choices = re.findall("'(.*?)'", found["choices"])
        meant = suggest(found["word"], choices)
        meant = f"; {meant}" if meant.startswith("did you mean") else ""
        return f"{_plain(found['where'])}: '{found['word']}' is not one of {listed(choices)}{meant}"
    return f"{_plain(message)}; `{context.command_path} --help` says more"


def _plain(message: str) -> str:
    """Without capital letters that belong to another form, and without quotes around a flag."""
    message = re.sub(r"'(-[^']*)'( / '-[^']*')*", r"\1", message.replace("Value error, ", ""))
    return message[:1].lower() + message[1:]
