"""Errors are tested by their type or exit code and by one catalogue of messages, tests/support/messages.py."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from support import messages

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "src" / "prirec").rglob("*.py"), *(ROOT / "experiments" / "src").rglob("*.py")]
TYPESCRIPT = [*(ROOT / "web" / "src").glob("*.ts")]
TESTS = [
    file for file in sorted((ROOT / "tests").rglob("*.py")) if file.name not in {"messages.py", Path(__file__).name}
]


class Placeholder(str):
    """Stands for a value: of a placeholder in the sources, of an argument in the catalogue."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return str(self)


VALUE = Placeholder("\0")  # in no text of the sources


def template(node: ast.AST) -> str:
    """The text that an expression makes, with VALUE for what is not known before it runs."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(map(template, parts))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return template(left) + template(right)
        case _:
            return VALUE


def templates(tree: ast.Module) -> Iterator[str]:
    """Every text of a module but its docstrings: they describe errors, and raise none."""
    described = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in described:
            yield re.sub(f"{VALUE}+", VALUE, template(node))  # two values side by side are as good as one


def entries() -> dict[str, str]:
    """The catalogue by name; each argument without a default is a VALUE."""
    found = {}
    for name, entry in vars(messages).items():
        if isinstance(entry, str) and name.isupper():
            found[name] = entry
        elif inspect.isfunction(entry) and not name.startswith("_"):
            given = [one for one in inspect.signature(entry).parameters.values() if one.default is one.empty]
            if not any(one.kind is one.VAR_POSITIONAL for one in given):  # those only join entries
                named = {one.name: VALUE for one in given if one.kind is one.KEYWORD_ONLY}
                found[name] = entry(*[VALUE] * (len(given) - len(named)), **named)
    return found


def foreign() -> list[str]:
    return [f"Foreign.{name}" for name in vars(messages.Foreign) if name.isupper()]


def test_every_entry_is_a_message_of_the_sources() -> None:
    raised = {text for file in SOURCES for text in templates(ast.parse(file.read_text("utf-8")))}
    texts = "\n".join([*raised, *(file.read_text("utf-8") for file in TYPESCRIPT)])
    unknown = [f"{name} ({entry})" for name, entry in entries().items() if not re.search(entry, texts, re.MULTILINE)]
    assert not unknown, (
        f"no message in the sources reads like these entries of tests/support/messages.py: {', '.join(unknown)}. "
        "Where a message was reworded, reword its entry; where it is gone, remove the entry and its tests"
    )


def test_every_entry_is_used() -> None:
    used = {name for file in TESTS for name in re.findall(r"\bmessages\.((?:Foreign\.)?\w+)", file.read_text("utf-8"))}
    unused = sorted({*entries(), *foreign()} - used)
    assert not unused, f"no test uses these entries of tests/support/messages.py: {', '.join(unused)}"


def test_no_two_entries_are_alike() -> None:
    found = entries()
    assert len(set(found.values())) == len(found)


def literals(tree: ast.Module) -> Iterator[ast.AST]:
    """Texts that pytest.raises(match=...) is given without the catalogue, also by way of parametrize."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            matched = [
                keyword.value
                for call in ast.walk(function)
                if isinstance(call, ast.Call)
                for keyword in call.keywords
                if keyword.arg == "match"
            ]
            yield from (text for value in matched for text in own_texts(value))
            names = {value.id for value in matched if isinstance(value, ast.Name)}
            for decorator in function.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.parametrize":
                    yield from given_literals(decorator, names)


def own_texts(value: ast.AST) -> Iterator[ast.AST]:
    """Texts in an expression, but for arguments of the catalogue's functions and conditions."""
    match value:
        case ast.Constant(value=str()) | ast.JoinedStr():
            yield value
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="messages"), attr="joined" | "any_of" | "beginning"), args=parts
        ):
            yield from (text for part in parts for text in own_texts(part))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*own_texts(body), *own_texts(orelse))
        case ast.BinOp(left=left, right=right):
            yield from (*own_texts(left), *own_texts(right))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="messages"))) | ast.Name() | ast.Attribute():
            return
        case _:
            yield value  # computed, as by re.escape: a function of the catalogue says what it means


def given_literals(decorator: ast.Call, names: set[str]) -> Iterator[ast.AST]:
    """In the columns of a parametrize that are matched."""
    columns = ast.literal_eval(decorator.args[0])
    columns = [one.strip() for one in columns.split(",")] if isinstance(columns, str) else columns
    rows = decorator.args[1].elts if isinstance(decorator.args[1], ast.List | ast.Tuple) else []
    for row in rows:
        cells = row.args if isinstance(row, ast.Call) else row.elts if isinstance(row, ast.Tuple) else [row]
        yield from (
            text for column, cell in zip(columns, cells, strict=False) if column in names for text in own_texts(cell)
        )


def test_messages_are_matched_by_the_catalogue_alone() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {ast.unparse(text)}"
        for file in TESTS
        for text in literals(ast.parse(file.read_text("utf-8")))
    ]
    assert not found, f"give these messages a name in tests/support/messages.py, and match that: {'; '.join(found)}"


def printed_literals(tree: ast.Module) -> Iterator[ast.AST]:
    """Comparisons of what a command wrote to stderr with a text, or with a value that a test was parametrized by."""
    asserted = {id(node.test) for node in ast.walk(tree) if isinstance(node, ast.Assert)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, ops=[ast.In()], comparators=[printed]) if "stderr" in ast.unparse(printed):
                # a Name outside an assertion of its own is a private value that must not be there
                if isinstance(left, ast.Constant | ast.JoinedStr) or id(node) in asserted:
                    yield node


def test_what_commands_print_is_compared_by_the_catalogue_alone() -> None:
    found = [
        f"{file.relative_to(ROOT)}: {ast.unparse(text)}"
        for file in TESTS
        if file.parent.name == "cli"
        for text in printed_literals(ast.parse(file.read_text("utf-8")))
    ]
    assert not found, f"name these in tests/support/messages.py, and use support.shell.says: {'; '.join(found)}"
