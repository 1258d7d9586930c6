"""The page on the data folder says what the code does."""

import re
from pathlib import Path

from prirec.data.folder import read_folder
from prirec.data.published import FORMATS

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


def test_the_page_lists_every_format_with_its_files():
    table = PAGE[PAGE.index("| format | files |") :]
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", table, flags=re.M))
    assert list(rows) == list(FORMATS)
    for name, known in FORMATS.items():
        assert all(file in rows[name] for entry in known.files for file in entry.split(" or "))
