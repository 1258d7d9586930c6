"""The report as a whole, written for a small city and real models."""

import errno
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from prirec.config import dump, load
from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, make_city
from prirec.errors import StateError, UsageError
from prirec.evaluate.intervals import FELT, Judged
from prirec.evaluate.report import Advice, advise_typical_person, write_report
from prirec.metrics import Quality
from prirec.protocols.prediction import Suggestion
from prirec.protocols.reasons import Reason
from prirec.simulate.compare import Contender, Entry, compare
from prirec.simulate.recommend import Advisor, typical_row
from support import messages
from support.web import chromium

HOSTILE = "<script>alert('x')</script> & \"font: 3px\" $_{1}$"
VOID = {"meta", "link", "br", "hr", "img", "input", "col"}
CONTENDERS = (
    Contender("FM", "everything", load(changes={"preset": "fm", "iterations": 2})),
    Contender("rounds", "sums", load(changes={"preset": "rounds", "iterations": 3})),
)
ADVICE = Advice(
    "A person of the city.",
    (
        Suggestion("Blue Door", "ramen, Harbour", 1.23, 0.781, (Reason("popularity", 0.5), Reason("distance", -0.25))),
        Suggestion("Corner", "", None, 0.999, ()),
    ),
)


class Page(HTMLParser):
    """What a browser would see: elements, attributes, text; and whether every element was closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str | None]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value or "" for _, attribute, value in self.attributes if attribute == name]


@pytest.fixture(scope="module")
def city() -> Dataset:
    return make_city(CityPlan(people=240, places=80, records=4000, districts=4), np.random.default_rng(0))


@pytest.fixture(scope="module")
def entries(city: Dataset) -> tuple[Entry, ...]:
    return compare(city, CONTENDERS)


@pytest.fixture(scope="module")
def html(city: Dataset, entries: tuple[Entry, ...], tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("report"), city, entries, ADVICE)


def written(folder: Path, city: Dataset, entries: tuple[Entry, ...], advice: Advice | None) -> str:
    path = folder / "report.html"
    write_report(path, city=city, entries=entries, advice=advice)
    assert [file.name for file in folder.iterdir()] == ["report.html"]
    return path.read_text(encoding="utf-8")


def numbers_of(html: str) -> list[str]:
    """The tables that stand folded below charts."""
    return re.findall(r'<details class="numbers">.*?</details>', html, flags=re.DOTALL)


def unfolded(html: str) -> str:
    return re.sub(r'<details class="numbers">.*?</details>', "", html, flags=re.DOTALL)


def rows(html: str) -> Iterator[list[str]]:
    for row in re.findall(r"<tr>(.*?)</tr>", html, flags=re.DOTALL):
        yield [unescape(re.sub(r"<[^>]+>", "", cell)) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]


def without_coordinates(city: Dataset) -> Dataset:
    return replace(city, people=replace(city.people, location=None), places=replace(city.places, location=None))


def test_the_table_holds_the_figures_of_the_entries(html: str, entries: tuple[Entry, ...]) -> None:
    table = {row[0]: [cell.rstrip("★") for cell in row[1:]] for row in rows(unfolded(html))}
    for entry in entries:
        q = entry.outcome.quality
        figures = [f"{value:.4f}" for value in (q.auc, q.auc_new, q.log_loss, q.auc_few)]
        assert table[entry.contender.name] == [*figures, f"{entry.seconds:.1f}", entry.contender.collects]


def test_the_first_table_ranks_places_nearby_with_intervals_over_people(html: str, entries: tuple[Entry, ...]) -> None:
    first = html[html.index("<table>") : html.index("</table>")]
    heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', first)
    assert heads == ["model", "NDCG@10", "recall@10", "AUC nearby", "GAUC"]
    table, judged = {row[0]: row[1:] for row in rows(first)}, Judged(entries)
    for entry, figures in zip(entries, judged.estimates, strict=True):
        lists, gauc = entry.ranked.mean(), entry.outcome.quality.gauc
        for name, cell in zip(FELT, table[entry.contender.name], strict=True):
            value = gauc if name == "gauc" else getattr(lists, name)
            half = (figures[name].high - figures[name].low) / 2
            assert cell.rstrip("★") == f"{value:.3f} ± {half:.3f}"
            assert figures[name].low < value < figures[name].high
    assert unescape(judged.worth()) in unescape(html)
    assert "drawn at random" in html


def test_the_best_figure_of_each_column_carries_the_star(html: str, entries: tuple[Entry, ...]) -> None:
    table = {row[0]: row[1:] for row in rows(unfolded(html))}
    for at, (better, name) in enumerate(((max, "auc"), (max, "auc_new"), (min, "log_loss"), (max, "auc_few"))):
        best = better(entries, key=lambda entry, name=name: getattr(entry.outcome.quality, name))
        starred = [entry.contender.name for entry in entries if table[entry.contender.name][at].endswith("★")]
        assert starred == [best.contender.name]


def test_the_dot_plot_shows_the_numbers_of_the_table(html: str, entries: tuple[Entry, ...]) -> None:
    plot = html[html.index('aria-label="AUC of each model, everyone"') :]
    plot = plot[: plot.index("</svg>")]
    for entry in entries:
        assert f">{entry.outcome.quality.auc:.4f}</text>" in plot


def test_every_chart_has_its_numbers_as_a_table(html: str, entries: tuple[Entry, ...]) -> None:
    tables = numbers_of(html)
    assert len(tables) == html.count('<svg class="plot"') + html.count('<svg class="map"') == 7
    everyone, _, *curves, by_records, gains, of_map = ([*rows(one)] for one in tables)
    assert [row[:2] for row in everyone[1:]] == [
        [entry.contender.name, f"{entry.outcome.quality.auc:.4f}"] for entry in entries
    ]
    assert all(float(low) < float(auc) < float(high) for _, auc, low, high in everyone[1:])
    for curve, entry in zip(curves, entries, strict=True):
        assert [row[1] for row in curve[1:]] == [f"{passed.loss:.4f}" for passed in entry.history]
    assert by_records[0] == ["training records", "FM", "rounds"]
    assert gains[0] == ["training records", "rounds"]  # the difference from FM
    difference = float(by_records[1][2].split()[0]) - float(by_records[1][1].split()[0])
    assert float(gains[1][1].split()[0].replace("−", "-")) == pytest.approx(difference, abs=1e-4)
    samples = entries[1].outcome.setup.samples
    places = sum(int(many.replace(",", "")) for name, many, _ in of_map[1:] if name.startswith("places"))
    assert places == len(samples.places)
    assert of_map[-1][:2] == ["people", f"{len(samples.ids):,}"]


def test_on_paper_the_numbers_are_not_folded(html: str) -> None:
    paper = html[html.index("@media print") : html.index("</style>")]
    assert ".numbers::details-content { content-visibility: visible; display: block; }" in paper


def test_sections_stand_in_reading_order(html: str) -> None:
    order = ["who-holds-what", "comparison", "learning", "who-gains", "map", "advice", "settings", "not-protected"]
    assert re.findall(r'<section id="([^"]+)">', html) == order


def test_the_opening_tells_the_size_and_that_it_is_a_simulation(html: str, city: Dataset) -> None:
    top = html[: html.index("<section")]
    assert all(f"<b>{n:,}</b>" in top for n in (len(city.people), len(city.places), len(city.visits)))
    assert "simulation" in top
    assert "synthetic" in top


def test_data_from_a_folder_are_not_called_synthetic(
    tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]
) -> None:  # fmt: skip
    """Even if the folder has the name and the columns of the generator's city."""
    assert "synthetic" in written(tmp_path, city, entries, None)
    assert "synthetic" not in written(tmp_path, replace(city, made_up=False), entries, None)


def test_advice_shows_places_odds_distances_and_reasons(html: str) -> None:
    part = html[html.index('id="advice"') :]
    for words in ("Blue Door", "ramen, Harbour", "78 % likely · 1.2 km", "popularity", "+0.50", "−0.25", "over 99 %"):
        assert words in part


def test_nobody_is_said_to_be_at_home_who_has_given_no_home(tmp_path: Path, city: Dataset) -> None:
    """Distances are then from the middle of the person's visits, and the page says so."""
    for people, words in (
        (city.people, "km from home"),
        (replace(city.people, location=None), "km from the middle of"),
    ):
        entries = compare(replace(city, people=people), CONTENDERS[1:])
        outcome = entries[0].outcome
        person = typical_row(outcome.setup.samples.train.counts())
        advice = advise_typical_person(Advisor.of(outcome.setup, outcome.trained.models), person)
        page = written(tmp_path, city, entries, advice)
        part = page[page.index('id="advice"') :]
        assert words in part
        told = re.search(r"\bhome\b", part[: part.index("</section>")])
        assert (told is not None) == ("home" in words)
        assert ("where they live" in page) == ("home" in words)


def test_settings_are_there_whole_and_folded(html: str, entries: tuple[Entry, ...]) -> None:
    folded = [unescape(text) for text in re.findall(r"<details>.*?<pre>(.*?)</pre></details>", html, flags=re.DOTALL)]
    assert folded == [dump(entry.contender.settings) for entry in entries]


def test_rounds_and_passes_are_named_as_different_units(html: str) -> None:
    assert "FM: training loss by passes" in html
    assert "rounds: training loss by rounds" in html
    assert "different units" in html


def test_the_page_is_well_formed_and_its_ids_are_unique(html: str) -> None:
    page = Page(html)
    assert page.open == []
    ids = Counter(page.values("id"))
    assert [name for name, times in ids.items() if times > 1] == []
    assert {link[1:] for link in page.values("href")} <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)


def test_the_page_loads_nothing_and_runs_nothing(html: str) -> None:
    page = Page(html)
    assert "http://" not in html
    assert "https://" not in html
    assert page.values("src") == []
    assert all(link.startswith("#") for link in page.values("href"))
    assert not {"script", "link", "img", "iframe", "object", "image"} & set(page.seen)
    assert not re.search(r"@import|@font-face|url\((?!#)", html)


def test_the_same_input_gives_the_same_bytes(
    tmp_path: Path, html: str, city: Dataset, entries: tuple[Entry, ...]
) -> None:  # fmt: skip
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "svg.fonttype": "path"}):
        assert written(tmp_path, city, entries, ADVICE) == html
        assert matplotlib.rcParams["font.size"] == 30


def test_hostile_names_stay_text(tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]) -> None:
    contenders = [Contender(f"{HOSTILE} {at}", HOSTILE, e.contender.settings) for at, e in enumerate(entries)]
    bad = tuple(replace(e, contender=c) for e, c in zip(entries, contenders, strict=True))
    line = Suggestion(HOSTILE + "\x00\ud800", HOSTILE, 1.0, 0.5, (Reason(HOSTILE, 1.0),))
    page = Page(written(tmp_path, replace(city, name=HOSTILE), bad, Advice(HOSTILE, (line,))))
    assert page.open == []
    assert page.seen["script"] == 0
    assert sum("<script>" in words for words in page.words) >= 8


def test_a_city_without_coordinates_has_no_map(tmp_path: Path, city: Dataset) -> None:
    flat = without_coordinates(city)
    html = written(tmp_path, flat, compare(flat, CONTENDERS), ADVICE)
    assert 'id="map"' not in html
    assert 'id="who-gains"' in html


def test_without_advice_its_section_is_left_out(tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]) -> None:
    assert 'id="advice"' not in written(tmp_path, city, entries, None)


def test_a_figure_without_meaning_is_a_dash_and_never_best(
    tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]
) -> None:  # fmt: skip
    nothing = Quality(auc=math.nan, log_loss=math.nan, gauc=math.nan, auc_few=math.nan, records=0)
    bad = replace(entries[0], outcome=replace(entries[0].outcome, quality=nothing))
    html = written(tmp_path, city, (bad, entries[1]), ADVICE)
    table = {row[0]: row[1:] for row in rows(unfolded(html))}
    assert table["FM"][:4] == ["–"] * 4
    assert ">nan<" not in html
    assert Page(html).open == []


def test_a_diverged_model_does_not_stop_the_report(
    tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]
) -> None:  # fmt: skip
    trained = entries[0].outcome.trained
    models = replace(trained.models, linear=np.full_like(trained.models.linear, np.nan))
    passed = [type(p)(iteration=p.iteration, loss=math.inf, took_part=1, in_sum=1) for p in trained.history]
    bad = replace(entries[0], outcome=replace(entries[0].outcome, trained=replace(trained, models=models)))
    worse = replace(bad, outcome=replace(bad.outcome, trained=replace(bad.outcome.trained, history=tuple(passed))))
    assert Page(written(tmp_path, city, (worse, entries[1]), None)).open == []


def test_one_model_alone_makes_a_report(tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]) -> None:
    html = written(tmp_path, city, entries[:1], None)
    assert "Difference from" not in html
    assert 'class="figure best"' not in html


def test_the_report_is_small(html: str) -> None:
    assert len(html.encode()) < 200_000


def test_no_models_is_refused(tmp_path: Path, city: Dataset) -> None:
    with pytest.raises(UsageError, match=messages.NO_MODEL_TO_REPORT):
        write_report(tmp_path / "report.html", city=city, entries=(), advice=None)


def test_a_report_needs_a_file_in_a_folder_that_is_there(
    tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]
) -> None:  # fmt: skip
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UsageError, match=messages.REPORT_TO_A_FOLDER):
        write_report(tmp_path / "report.html", city=city, entries=entries, advice=None)
    with pytest.raises(UsageError, match=messages.REPORT_TO_NO_FOLDER):
        write_report(tmp_path / "missing" / "report.html", city=city, entries=entries, advice=None)
    with pytest.raises(UsageError, match=messages.REPORT_TO_NO_FILE):
        write_report(Path(os.devnull), city=city, entries=entries, advice=None)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_disk_that_takes_no_report_is_blamed_and_keeps_the_old_one(
    tmp_path: Path, city: Dataset, entries: tuple[Entry, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "report.html").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match=messages.REPORT_NOT_WRITTEN):
        write_report(tmp_path / "report.html", city=city, entries=entries, advice=None)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("report.html", "old")]


def test_a_table_needs_no_more_room_than_a_phone_has(html: str) -> None:
    """Every cell can stand in a line of its own, with the name of its column."""
    for table in re.findall(r"<table>(.*?)</table>", html, flags=re.DOTALL):
        heads = re.findall(r'<th scope="col"[^>]*>(.*?)</th>', table)
        for row in re.findall(r"<tr>(.*?)</tr>", table, flags=re.DOTALL)[1:]:
            assert re.findall(r'<td data-label="([^"]*)"', row) == heads[1:]
            assert row.count("<td") == len(heads) - 1
    assert html.count("<table>") == html.count('<div class="scroll" tabindex="0"><table>')
    assert unfolded(html).count("<table>") == 2


MEASURE = """<iframe id="page" src="report.html" style="width: 375px; height: 800px; border: 0"></iframe>
<script>
page.onload = () => {
  const shown = page.contentDocument;
  for (const folded of shown.querySelectorAll("details")) folded.open = true;
  const parts = [...shown.querySelectorAll("table, td, tbody th, svg, p")];
  const wide = parts.filter((one) => one.getBoundingClientRect().right > 375);
  const tables = [...shown.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1);
  document.body.textContent = `beyond: ${shown.documentElement.scrollWidth > 375} ${wide.length} ${tables.length}.`;
};
</script>"""


def test_in_a_browser_of_375_pixels_nothing_is_cut_off(tmp_path: Path, html: str) -> None:
    (tmp_path / "report.html").write_text(html, encoding="utf-8")
    (tmp_path / "frame.html").write_text(MEASURE, encoding="utf-8")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files")
    words = (f"--user-data-dir={tmp_path / 'user'}", "--virtual-time-budget=5000", "--dump-dom")
    found = subprocess.run(
        [chromium(), *flags, *words, (tmp_path / "frame.html").as_uri()], check=True, capture_output=True, text=True
    )
    assert "beyond: false 0 0." in found.stdout


def test_notes_are_told_beside_the_figures(tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]) -> None:
    write_report(tmp_path / "r.html", city=city, entries=entries, advice=None, notes=["Half of <it> was left out."])
    html = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<li>Half of &lt;it&gt; was left out.</li>" in html
    assert "What to know about these figures" in html


def test_a_page_of_one_model_speaks_of_one(tmp_path: Path, city: Dataset, entries: tuple[Entry, ...]) -> None:
    alone = written(tmp_path, city, (replace(entries[1], seconds=math.nan),), ADVICE)
    for words in ("How good is it?", "How it learnt"):
        assert words in alone
    said = alone.split("<main>")[1].split("Settings of")[0]
    for words in ("★", "order of the models", "intervals of the difference", "different units", "econds", "entralised"):
        assert words not in said


def test_without_matplotlib_the_old_report_stays_and_the_error_says_what_to_install(
    tmp_path: Path, city: Dataset, entries: tuple[Entry, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=messages.REPORT_WITHOUT_MATPLOTLIB):
        write_report(path, city=city, entries=entries, advice=None)
    assert path.read_text() == "old"
