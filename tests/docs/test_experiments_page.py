"""experiments/RESULTS.md cannot drift from the results beside it, and these keep what was promised."""

import re
import shutil

from support.pages import ROOT
from support.shell import call

PAGE = (ROOT / "experiments" / "RESULTS.md").read_text(encoding="utf-8")


def test_the_page_is_what_was_measured(tmp_path):
    shutil.copytree(ROOT / "experiments" / "results", tmp_path / "results", ignore=shutil.ignore_patterns("scores"))
    assert call("reproduce", "--out", tmp_path, "--report", tmp_path / "page.html").exit_code == 0
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8") == PAGE
    for drawing in (ROOT / "experiments" / "plots").iterdir():
        assert (tmp_path / "plots" / drawing.name).is_file()


def test_time_is_affine_in_the_size_of_the_data_and_of_the_model():
    fits = re.findall(r"^\| PriRec.*\| (0\.\d{4}) \|$", PAGE.partition("**Affine fits")[2].partition("**Ring")[0], re.M)
    assert len(fits) in (4, 6)  # without and with those of rounds
    assert min(float(fit) for fit in fits) >= 0.98


def test_counted_bytes_are_those_of_the_formulas():
    rows = re.findall(r"^\| .* \| \d+ \| ([\d,]+) \| ([\d,]+) \| [\d,]+ \|$", PAGE.partition("**Ring")[2], re.M)
    assert len(rows) == 8
    assert all(counted == formula for counted, formula in rows)
