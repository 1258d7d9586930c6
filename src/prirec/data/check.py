"""Everything that is wrong or doubtful about a data folder, at once, and a schema.toml that would settle it.

The tables are read as `read_folder` reads them. What is found is put aside (rows, a column, a declaration, a table), so
that the rest can be looked at. Nothing here shows a cell: visits and people are private.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from prirec.data.columns import check_names, read_checked, read_columns, with_roles
from prirec.data.dataset import Column, Numbers
from prirec.data.folder import (
    TABLES,
    Loaded,
    assemble_sound,
    left_out,
    listed_ids,
    read_folder,
    read_ids,
    read_label,
    read_location,
    read_time,
    refuse_coordinates,
    refuse_other_tables,
    refuse_swapped,
    refuse_too_long,
    without_rows,
)
from prirec.data.schema import (
    FILE,
    IGNORE,
    NAME,
    RESERVED,
    ROLES,
    Schema,
    SchemaError,
    axis_of,
    role_of,
    roles_of,
    schema_content,
    schema_from,
    schema_text,
)
from prirec.data.sources import existing_folder, is_partitioned
from prirec.data.tables import IDS, NEEDS, Table, TableError, TableFiles, UnnamedColumnsError, read_table
from prirec.errors import DataError, UsageError
from prirec.util.files import new_file
from prirec.util.shown import Shown, counted
from prirec.util.shown import Table as Panel


@dataclass(frozen=True, slots=True)
class Problem:
    """Something for which the folder would be refused."""

    words: str  # with file, line and column
    rows: int | None = None  # how many rows it is about; None: a column, or a whole table

    def to_dict(self) -> dict[str, Any]:
        return {"problem": self.words, "rows": self.rows}


@dataclass(frozen=True, slots=True, repr=False)
class FolderCheck(Shown):
    """What `check_folder` found: problems, for which the folder is refused, and doubts, with which it is read."""

    folder: Path
    problems: tuple[Problem, ...]
    doubts: tuple[str, ...]  # what would be read otherwise than it may be meant
    schema: str  # a schema.toml to begin with; empty where nothing is left to say

    def panels(self) -> Iterator[str | Panel]:
        problems, doubts = len(self.problems), len(self.doubts)
        yield f"{self.folder}: {counted(problems, 'problem', none='no')}, {counted(doubts, 'doubt', none='no')}."
        if self.problems:
            rows = [("" if one.rows is None else f"{one.rows:,}", one.words) for one in self.problems]
            yield Panel((">rows", "wrong, and refused"), rows)
        if self.doubts:
            yield Panel(("doubtful, and read",), [(words,) for words in self.doubts])

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "problems": [one.to_dict() for one in self.problems], "doubts": list(self.doubts), "schema": self.schema
        }  # fmt: skip

    def write_schema(self) -> Path:
        """Write the proposed schema.toml into the folder. UsageError if there is one."""
        file = self.folder / FILE
        try:
            with new_file(file) as target:
                target.write(self.schema.encode())
        except FileExistsError:
            raise UsageError(f"{file} is there already; change it by hand") from None
        return file


def check_folder(folder: Path | str, *, skip_bad: bool = False) -> FolderCheck:
    """All problems and doubts of a data folder, and a proposed schema.toml; DataError only if there is no such folder.
    With skip_bad, rows that are wrong are doubts, as they would be left out."""
    path = existing_folder(Path(folder), needs=NEEDS)
    check = _Check(path, skip_bad=skip_bad)
    check.run()
    return FolderCheck(path, tuple(check.problems), tuple(dict.fromkeys(check.doubts)), check.proposal())


@dataclass(slots=True)
class _Check:
    """A check while it goes on: what was found so far, and the schema without what was wrong with it."""

    path: Path
    skip_bad: bool
    problems: list[Problem] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    schema: Schema = field(default_factory=Schema)
    mentioned: list[str] = field(default_factory=list)  # in schema.toml, whatever it says
    answers: dict[str, str] = field(default_factory=dict)  # "visits.uid" -> the kind that is proposed
    remarks: dict[str, str] = field(default_factory=dict)
    unnamed: dict[str, str] = field(default_factory=dict)  # file -> what is to be filled in about its columns

    def run(self) -> None:
        if is_partitioned(self.path):
            try:
                self.doubts += read_folder(self.path).notes
            except DataError as error:
                self._blame(error)
            return
        self._read_schema()
        tables = self._with_roles(self._read_tables())
        loaded = self._read_cells(tables)
        if loaded is None:
            self.doubts += (note for table in tables.values() for note in table.notes)
        else:
            self.doubts += loaded.notes
            try:
                files = {name: tables[name].file or self.path if name in tables else self.path for name in TABLES}
                refuse_swapped(loaded.dataset, users=files["users"], pois=files["pois"])
            except DataError as error:
                self._blame(error)

    def proposal(self) -> str:
        """What schema.toml says already, and an answer to everything that was asked."""
        new = {key: role for key, role in self.answers.items() if key not in self.schema.roles}
        if not new and not self.remarks and not self.unnamed:
            return ""
        unnamed = "".join(f"# {file}: write its own names for COLUMN\n{what}" for file, what in self.unnamed.items())
        return unnamed + schema_text(replace(self.schema, roles={**self.schema.roles, **new}), remarks=self.remarks)

    def _blame(self, error: DataError, *, rows: int | None = None) -> None:
        self.problems.append(Problem(str(error), rows))

    def _read_schema(self) -> None:
        """Entry by entry, so that one that is wrong does not hide the next."""
        try:
            content = schema_content(self.path)
        except DataError as error:
            self._blame(error)
            return
        sound: dict[str, dict[str, Any]] = {}
        for table, columns in content.items():
            for column, entry in columns.items() if isinstance(columns, dict) else [("", columns)]:
                one = {column: entry} if isinstance(columns, dict) else entry
                self.mentioned.append(f"{table}.{column}")
                try:
                    schema_from({table: one}, file=self.path / FILE)
                    sound.setdefault(table, {}).update(one)
                except DataError as error:
                    self._blame(error)
        self.schema = schema_from(sound, file=self.path / FILE)

    def _read_tables(self) -> dict[str, Table]:
        tables: dict[str, Table] = {}
        broken: list[str] = []
        there = TableFiles.of(self.path)
        self.doubts += there.notes()
        for name in TABLES:
            try:
                file = there.find_visits() if name == "visits" else there.find(name)
                if file is not None:
                    tables[name] = read_table(name, file, known=self.schema.columns_of(name))
            except DataError as error:
                self._blame(error)
                broken.append(name)
                if isinstance(error, UnnamedColumnsError) and error.file is not None:
                    self.unnamed[error.file.name] = _to_fill_in(name)
        while True:
            try:
                refuse_other_tables((*tables, *broken), self.schema)
                for table in tables.values():
                    check_names(table, self.schema)
                return tables
            except SchemaError as error:
                self._blame(error)
                self.schema = self.schema.without(error.key)

    def _with_roles(self, tables: dict[str, Table]) -> dict[str, Table]:
        """The tables as they would be read once what is asked about is answered."""
        for name, table in tables.items():
            roles = roles_of(name, table.frame.columns, self.schema)
            answers: dict[str, str] = {}
            for column, problem in roles.asked.items():
                self._blame(table.error(f"{problem}; say in schema.toml what it is", column=column))
                role = (
                    role_of(column, name) or axis_of(column, name) or IGNORE
                )  # where several look like one thing, the first is taken for it
                free = role in RESERVED[name] and role not in (*roles.taken, *answers.values())
                answers[column] = role if free else IGNORE
            answered = {f"{name}.{column}": role for column, role in answers.items()}
            tables[name] = with_roles(table, replace(self.schema, roles={**self.schema.roles, **answered}))
            taken = {f"{name}.{column}": role for role, column in roles.taken.items() if column != role or role == NAME}
            doubtful = {f"{name}.{column}": kind for column, (_, kind) in roles.doubts.items()}
            refused = [column for role, column in roles.taken.items() if name == "visits" and role in ("lat", "lon")]
            unused = {f"{name}.{column}": IGNORE for column in refused}
            self.answers |= {**taken, **answered, **doubtful, **unused}
            missing = [role for role in IDS[name] if role not in tables[name].frame.columns]
            if missing:
                self.unnamed[table.label] = _to_fill_in(name, missing)
        return tables

    def _read_cells(self, tables: dict[str, Table]) -> Loaded | None:
        """The data set of what is sound; None where there are no visits to speak of."""
        loaded: Loaded | None = None
        for name in TABLES:
            if name in tables:
                tables = self._read_table(tables, name)
        while "visits" in tables and loaded is None:  # what two tables have to do with each other
            try:
                loaded = assemble_sound(tables, schema=self.schema, name=self.path.name)
            except TableError as error:
                self._report(error, tables[error.table])
                tables = self._put_aside(error, tables)
        self._remark(tables)
        return loaded

    def _read_table(self, tables: dict[str, Table], name: str) -> dict[str, Table]:
        """One table, column by column, so that a row with two problems has both of them reported."""
        whole = tables[name]
        wrong, last = np.zeros(whole.frame.height, dtype=np.bool_), None
        for look in _looks(whole, self.schema):
            left = whole
            while left.frame.height:
                try:
                    look(left)
                    break
                except TableError as error:
                    self._report(error, whole)
                    if error.records is None:
                        tables = self._put_aside(error, tables)
                        break
                    left = left.take(~np.isin(left.positions, error.records))
                    wrong, last = wrong | np.isin(whole.positions, error.records), error
        return tables if last is None else self._put_aside(whole.wrong_rows(last.problem, wrong), tables)

    def _report(self, error: TableError, table: Table) -> None:
        if error.records is not None and self.skip_bad:
            self.doubts.append(left_out(table, np.isin(table.positions, error.records), error.problem))
        else:
            self._blame(error, rows=None if error.records is None else len(error.records))

    def _put_aside(self, error: TableError, tables: dict[str, Table]) -> dict[str, Table]:
        """The tables without what an error is about: rows, with the visits that name them, or a column, or a table."""
        table, column = tables.get(error.table), error.key
        if table is None:  # it was put aside before
            return tables
        if error.records is not None:
            try:
                left, notes = without_rows(tables, error)
                if self.skip_bad:
                    self.doubts += notes[1:]  # on visits that name these rows; the rows are reported
                return left
            except TableError:  # no row would be left
                if self.skip_bad:
                    self._blame(error, rows=len(error.records))
        elif column in table.frame.columns and column not in IDS[table.name]:
            gone = ("lat", "lon") if column in ("lat", "lon") else (str(column),)
            return {**tables, table.name: table.without_columns(gone)}
        return {name: one for name, one in tables.items() if name != table.name}

    def _remark(self, tables: dict[str, Table]) -> None:
        """Of private columns that nobody has declared anything about: what could be declared."""
        for name in ("users", "visits"):
            columns = read_columns(tables[name], self.schema) if name in tables else {}
            for column, cells in columns.items():
                key = f"{name}.{column}"
                if key not in (*self.schema.columns(), *self.answers, *self.mentioned):
                    self.remarks[key] = _could_be_declared(cells)


def _looks(table: Table, schema: Schema) -> list[Callable[[Table], object]]:
    """Everything that can be wrong with a table by itself, one thing at a time."""
    features = [name for name in table.frame.columns if name not in (*RESERVED[table.name], table.shown)]
    cells = [partial(read_checked, name=name, schema=schema) for name in features]
    if table.name == "visits":
        ids = [partial(read_ids, column=column) for column in IDS["visits"]]
        return [refuse_too_long, *ids, refuse_coordinates, read_label, read_time, *cells]
    return [refuse_too_long, partial(listed_ids, column=IDS[table.name][0]), read_location, *cells]


def _to_fill_in(table: str, roles: Sequence[str] = ()) -> str:
    """Comments for whoever knows which columns these are; nothing is read off a first line that may be a visit."""
    useful = [role for role in ROLES[table] if role != IGNORE and not (table == "visits" and role in ("lat", "lon"))]
    return "".join(f'# [{table}.COLUMN]\n# kind = "{role}"\n\n' for role in roles or useful)


def _could_be_declared(column: Column) -> str:
    """Nothing in it is read off the cells: what is declared about private columns must not be."""
    if isinstance(column, Numbers):
        return "low and high, two numbers: the range that everybody may know"
    return 'values = ["one word", "another"]: the words that everybody may know; without them, words are hashed'
