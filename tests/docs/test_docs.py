"""The documentation cannot drift: generated pages are compared, commands are run, links lead somewhere."""

import re
from itertools import chain
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import architecture_page
import make
import rehearsal
from prirec.config import PRIVATE, Section, preset
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Adjacency
from prirec.privacy.plan import Kind, plan_for
from prirec.protocols import party
from prirec.protocols.messages import Terms
from prirec.simulate.privacy_plan import FEATURES, MOST_NOISE, terms
from protocol_parts import TABLES
from support.pages import EXPERIMENTS, ON_STAGE, ROOT, TWO_OPERATORS, commands, page_writer, run
from who_learns_what import MESSAGES

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
BY_OTHER_TESTS = [*ON_STAGE, TWO_OPERATORS, EXPERIMENTS]
WITH_COMMANDS = [page for page in PAGES if page not in BY_OTHER_TESTS and "```sh\n" in page.read_text(encoding="utf-8")]

LARGE = {ROOT / "README.md", ROOT / "docs" / "for" / "researchers.md"}  # tune a model on a city
LONG = ("cluster.md",)  # starts two clusters


def test_generated_pages_are_what_the_code_says() -> None:
    for page, write in make.PAGES.items():
        assert page.read_text(encoding="utf-8") == write(), f"{page.name} is old: run make docs"


@pytest.mark.long  # a campaign over HTTPS, twice
def test_the_page_about_the_architecture_lists_the_files_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = page_writer("benchmarks/tree.py", monkeypatch)
    listed, gradient = architecture_page.ways_on_page(), tree.gradient_trace()
    assert listed[architecture_page.VISIT] == tree.visit_trace().here
    # which side computes what both have cached differs from run to run
    assert {file for side in architecture_page.GRADIENT for file in listed[side]} == set(gradient.files)
    assert "device/rounds.py" in gradient.here
    assert {"device/worker.py", "model/shared_model.py"} <= set(gradient.children)
    assert {"recommender/conductor.py", "model/estimate.py"} <= set(gradient.service)


def test_every_setting_is_on_its_page() -> None:
    settings = preset("private")
    values = {name: getattr(settings, name) for name in settings.__struct_fields__}
    names = {name for name, value in values.items() if not isinstance(value, Section)}
    for section, value in values.items():
        names |= {f"{section}.{field}" for field in getattr(value, "__struct_fields__", ())}
    told = re.findall(r"^\| `([\w.]+)` \|", make.settings_page(), flags=re.MULTILINE)
    assert {"seed", "features.averages", "privacy.epsilon_per_user"} <= names
    assert sorted(told) == sorted(names)


def test_the_page_about_the_budget_tells_the_figures_of_the_preset() -> None:
    page = " ".join(make.BUDGET.read_text(encoding="utf-8").split())
    city = {"people": make.PEOPLE, "pois": make.PLACES}
    plan = plan_for(PRIVATE, **city, size=ModelSize.assumed(make.FEATURES))
    releases = {release.of.kind: release.of.releases for release in plan.releases}
    assert f"For {city['people']:,} people and {city['pois']:,} places, all else as in `private`" in page
    assert f"ε = {PRIVATE.privacy.epsilon_per_user:g} and δ = 10⁻⁶ for life" in page
    assert (PRIVATE.privacy.delta, PRIVATE.privacy.period_days) == (1e-6, None)
    assert f"it is the larger figure, {plan.loss(Adjacency.REPLACE_ONE).epsilon:.3f} for ε = 1" in page
    assert releases == {Kind.POPULARITY: 1, Kind.MOMENTS: 1, Kind.INTERACTION: PRIVATE.iterations}
    assert f"`private` has {PRIVATE.iterations} rounds, so gradients are opened {PRIVATE.iterations} times" in page
    assert f"The plan calls up to {MOST_NOISE:g} usable" in page
    assert f"(`--features`, {FEATURES} by default)" in page
    crowd = plan.releases[0].of.crowd
    more = (crowd.size / (crowd.survivors - crowd.colluders)) ** 0.5
    assert f"{more:.2f} times as much if no device is lost" in page


def test_the_page_about_the_budget_tells_what_a_year_of_periods_comes_to() -> None:
    page = " ".join(make.BUDGET.read_text(encoding="utf-8").split())
    plan = plan_for(PRIVATE, people=make.PEOPLE, pois=make.PLACES, size=ModelSize.assumed(make.FEATURES))
    month, quarter = (terms(plan, days)[1] for days in (30, 90))
    told = (
        f"ε = 1 in any 30 days comes to {month.epsilon:.2f} after a year (replace-one {month.epsilon_replace_one:.2f})"
    )
    assert f"{told}, ε = 1 in any 90 days to {quarter.epsilon:.2f} ({quarter.epsilon_replace_one:.2f})" in page


def test_the_paper_map_lacks_only_what_is_not_built() -> None:
    built = [line for line in make.paper_map().splitlines() if line.startswith(("| Eq.", "| Alg"))]
    missing = [line.split("|")[1].strip() for line in built if "not built yet" in line]
    assert missing == []


def test_every_table_of_legal_moves_is_drawn() -> None:
    page = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"<!-- generated: diagram (\w+) -->\n```mermaid\nstateDiagram-v2\n", page))
    held = {name: value for name, value in vars(party).items() if name.isupper() and isinstance(value, dict)}
    tables = {name for name in held if not name.endswith("_STEPS")}
    assert len(tables) >= 5
    assert tables <= drawn == set(TABLES)


def test_every_legal_way_to_take_a_sum_is_rehearsed() -> None:
    assert get_args(get_type_hints(Terms)["method"]) == rehearsal.WAYS


def test_messages_go_the_ways_that_who_learns_what_tells_of() -> None:
    seen = dict[type, set[tuple[str, str]]]()
    for played in chain.from_iterable(map(rehearsal.plays, rehearsal.WAYS)):
        for message in played.sent:
            ends = (played.roles[message.sender], played.roles[message.receiver])
            seen.setdefault(type(message), set()).add(ends)
    assert seen == {kind: set(told.ways) for kind, told in MESSAGES.items()}


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.name, marks=[pytest.mark.long] if page.name in LONG else []) for page in WITH_COMMANDS],
)
def test_every_command_in_the_docs_runs(page: Path, tmp_path: Path) -> None:
    assert commands(page)
    for line in commands(page):
        run(in_a_quarter(line) if page in LARGE else line, inside=tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("page", sorted(LARGE), ids=lambda page: page.name)
def test_every_command_of_a_page_with_a_large_city_runs_on_all_of_it(page: Path, tmp_path: Path) -> None:
    assert any(in_a_quarter(line) != line for line in commands(page))
    for line in commands(page):
        run(line, inside=tmp_path)


def in_a_quarter(line: str) -> str:
    """The made-up `city` at a quarter of its size; any other command as it stands."""
    if not line.startswith("prirec data make city "):
        return line
    return re.sub(r"(--(?:people|places|records)) (\d+)", lambda found: f"{found[1]} {int(found[2]) // 4}", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_a_heading_name_one_of_its_page(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    missing = [f"{to}#{heading}" for to, heading in links if heading not in headings(page.parent / to if to else page)]
    assert not missing


def headings(page: Path) -> set[str]:
    """Names by which headings are linked to: lower case, words joined by hyphens, without punctuation and addresses."""
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = (re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title) for title in re.findall(r"^#+ (.+)$", prose, re.MULTILINE))
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}
