"""The page on the data folder says what the code does."""

import re
import tomllib
from pathlib import Path

import pytest

from prirec.data.check import check_folder
from prirec.data.folder import read_folder
from prirec.data.published import FORMATS
from prirec.data.schema import AXES, RATINGS, ROLE_IN, ROLE_OF, TABLE_OF
from support.shell import call, flat

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "your-own-data.md").read_text(encoding="utf-8")


def test_the_example_on_the_page_can_be_read(tmp_path):
    files = dict(re.findall(r"^`([a-z.]+)`\n\n```[a-z]+\n(.*?)^```", PAGE, flags=re.M | re.S))
    assert set(files) == {"visits.csv", "pois.csv", "users.csv", "schema.toml"}
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    loaded = read_folder(tmp_path, strict=True)
    assert loaded.notes == ()
    assert loaded.dataset.visits.label.tolist() == [1, -1, 1]
    assert loaded.dataset.places.columns["tags"].words == ("art", "late", "rainy day", "ramen", "view")
    assert set(loaded.dataset.declared) == {"users.gender", "users.age", "visits.device"}


def blocks(language):
    section = PAGE[PAGE.index("## Tables whose columns have other names") : PAGE.index("## schema.toml")]
    return re.findall(rf"^```{language}\n(.*?)^```", section, flags=re.M | re.S)


@pytest.fixture
def app(tmp_path, monkeypatch):
    """The tables of the page's app, in the folder city below the working folder."""
    (tmp_path / "city").mkdir()
    for name, text in zip(("visits", "pois"), blocks("csv"), strict=True):
        (tmp_path / "city" / f"{name}.csv").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "city"


def test_the_check_prints_what_the_page_shows(app):
    found = call("data", "check", "city", columns=105)
    assert found.exit_code == 3
    (shown,) = blocks("text")
    printed = flat(found.stdout.replace("─", ""))
    assert flat(shown.replace("─", "")) in printed


def test_the_schema_of_the_page_is_what_the_check_proposes_and_settles_it(app):
    (schema,) = blocks("toml")
    proposed = tomllib.loads(check_folder(app).schema)
    for key, part in tomllib.loads(schema).items():
        assert part.items() <= proposed[key].items()
    (app / "schema.toml").write_text(schema, encoding="utf-8")
    assert [one.rows for one in check_folder(app).problems] == [1]
    city = read_folder(app, skip_bad=True).dataset
    assert not city.visits.context
    assert city.places.names == ("Noodle Bar", "City Museum")


def test_the_code_of_the_page_runs(app, capsys):
    (app / "schema.toml").write_text(blocks("toml")[0], encoding="utf-8")
    (code,) = blocks("python")
    exec(code, {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "1 problem" in printed
    assert "1 row left out, line 4" in printed


def test_the_page_lists_every_name_that_is_recognised():
    table = PAGE[PAGE.index("| is recognised | also as |") : PAGE.index("## schema.toml")]
    rows = {
        what: set(re.findall("`([a-z]+)`", names)) for what, names in re.findall(r"^\| (.*?) \| (.*) \|$", table, re.M)
    }
    del rows["is recognised"]
    expected = {f"the file `{name}`": _others(TABLE_OF, name) for name in ("visits", "pois", "users")}
    expected |= {f"the column `{role}`": _others(ROLE_OF, role) for role in set(ROLE_OF.values())}
    expected |= {f"`{role}`, in `users` alone": _others(ROLE_IN["users"], role) for role in ("user", "lat", "lon")}
    expected |= {"`poi`, in `pois` alone": _others(ROLE_IN["pois"], "poi")}
    for words, meant in (
        ("a home outside `users`", "a home"),
        ("the number of a row of `visits`", "the number of a row"),
    ):
        expected[f"asked about: {words}"] = _others(ROLE_IN["visits"], meant)
    expected |= {"read as context of a visit, with a note": set(RATINGS)}
    expected |= {"asked about: degrees or not?": set(AXES)}
    assert rows == expected


def _others(names, role):
    return {name for name, meant in names.items() if meant == role} - {role}


def test_the_page_lists_every_format_with_its_files():
    table = PAGE[PAGE.index("| format | files |") :]
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", table, flags=re.M))
    assert list(rows) == list(FORMATS)
    for name, known in FORMATS.items():
        assert all(file in rows[name] for entry in known.files for file in entry.split(" or "))
