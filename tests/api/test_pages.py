"""What the README, the how-to page and the notebooks show is run as it stands there."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

import prirec
from prirec.errors import UsageError
from prirec.simulate.recommend import Advisor, no_models, ranked
from prirec.simulate.setup import set_up
from prirec_experiments.experiment import Workspace
from prirec_experiments.models import MODELS, Job
from prirec_experiments.reproduce import Request, _refuse_models
from prirec_experiments.rivals.descent import quiet
from prirec_experiments.trial import TrainAndTest, resolve
from support import messages
from support.pages import ROOT

OWN_MODEL = ROOT / "docs" / "how-to" / "own-model.md"
FOR_READERS = [page for page in sorted((ROOT / "docs" / "for").glob("*.md")) if "```python" in page.read_text("utf-8")]
LONG = ("what-a-budget-buys",)  # trains half a dozen cities
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def run(sources: list[str], *, name: str, inside: Path) -> dict[str, object]:
    """Pieces of code in one namespace, one after another."""
    names: dict[str, object] = {"__name__": "__main__"}
    with chdir(inside):
        for at, source in enumerate(sources):
            exec(compile(source, f"{name}, piece {at}", "exec"), names)  # noqa: S102
    return names


def test_the_readme_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (source,) = blocks(ROOT / "README.md", "python")
    run([source], name="README.md", inside=tmp_path)
    shown = capsys.readouterr().out
    assert "Places for u0007, best first" in shown
    assert "Usable: ε = 1 for each person" in shown
    assert (tmp_path / "first-fit" / "run.json").is_file()


@pytest.mark.parametrize("page", FOR_READERS, ids=lambda page: page.stem)
def test_the_page_for_a_reader_runs(page: Path, tmp_path: Path) -> None:
    run(blocks(page, "python"), name=page.name, inside=tmp_path)


def test_the_page_about_own_models_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(blocks(OWN_MODEL, "python"), name=OWN_MODEL.name, inside=tmp_path)
    assert "nearby" in capsys.readouterr().out
    assert "nearby" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the page, as if it were installed."""
    (table,) = blocks(OWN_MODEL, "toml")
    module, _, _ = re.search(r'nearby = "(\w+):(\w+)"()', table).groups()  # type: ignore[union-attr]
    (tmp_path / f"{module}.py").write_text(blocks(OWN_MODEL, "python")[0], encoding="utf-8")
    meta = tmp_path / "nearby-1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: nearby\nVersion: 1\n", encoding="utf-8")
    points = table.replace('[project.entry-points."prirec.models"]', "[prirec.models]").replace('"', "")
    (meta / "entry_points.txt").write_text(points, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop(module, None)
    MODELS.pop("nearby", None)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("installed")
def test_a_registered_model_is_compared_by_name() -> None:
    table = prirec.compare(prirec.make_city(people=200), ["fm", "nearby"], iterations=2).table
    assert [row["model"] for row in table] == ["fm", "nearby"]


@pytest.mark.usefixtures("installed")
def test_a_registered_model_is_a_model_of_the_experiments() -> None:
    """Scores of the test records and of candidates, as `reproduce` asks for them."""
    model = MODELS["nearby"]
    assert model.description == "counts of visits"
    setup = set_up(prirec.make_city(people=200).dataset, prirec.settings("rounds"))
    fitted = model.fit(Job(setup, None, 1, quiet))
    assert fitted.scorer.test().shape == (len(setup.samples.test),)
    assert len(ranked(Advisor.of(setup, no_models(setup)), fitted.scorer.of).person) > 0


@pytest.mark.usefixtures("installed")
def test_reproduce_adds_a_registered_model_to_the_tables_of_accuracy() -> None:
    def request(*models: str, names: tuple[str, ...] = ("table4",)) -> Request:
        return Request(
            names=names,
            quick=True,
            data=None,
            out=Path("nowhere"),
            threads=1,
            forecast=True,
            report=None,
            models=models,
        )

    asked = request("nearby")
    (table4,) = asked.experiments
    _refuse_models(asked)
    assert asked.settings(table4)["models"][-1] == "nearby"
    cell = next(cell for cell in table4.cells(asked.settings(table4)) if cell.model == "nearby")
    workspace = Workspace(None, 1)
    assert isinstance(table4.measure, TrainAndTest)
    assert table4.measure.expected(cell, workspace) > 0
    assert resolve(cell, workspace.city(cell.city)[0], MODELS["nearby"], {}).own is None
    with pytest.raises(UsageError, match=messages.no_such_model("nearbi")):
        _refuse_models(request("nearbi"))
    with pytest.raises(UsageError, match=messages.model_option_belongs_to("table4 and table5")):
        _refuse_models(request("nearby", names=("figure4",)))


@pytest.mark.parametrize(
    "notebook",
    [pytest.param(one, id=one.stem, marks=[pytest.mark.long] if one.stem in LONG else []) for one in NOTEBOOKS],
)
def test_every_cell_of_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    book = json.loads(notebook.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    assert cells
    run(cells, name=notebook.name, inside=tmp_path)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_notebooks_are_kept_without_outputs(notebook: Path) -> None:
    book = json.loads(notebook.read_text(encoding="utf-8"))
    assert (book["nbformat"], len({cell["id"] for cell in book["cells"]})) == (4, len(book["cells"]))
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in code)


def test_there_are_two_notebooks() -> None:
    assert [notebook.stem for notebook in NOTEBOOKS] == ["first-recommendations", "what-a-budget-buys"]
