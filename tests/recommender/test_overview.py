"""What the operator's page and the metrics show: as the stores have it, with the signs that call for the operator, and
nothing private in a byte of it."""

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from prirec.config import Features
from prirec.errors import PassingError, UsageError
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.pages import built
from prirec.privacy.quality_figures import FIGURES, Estimate
from prirec.protocols.codec import encode
from prirec.recommender import operator, tls
from prirec.recommender.authentication import Authenticator
from prirec.recommender.observability import Metrics
from prirec.recommender.operator import (
    begin_campaign,
    end_campaign,
    fingerprint,
    found_deployment,
    publish_catalogue,
    published_averages,
    published_figures,
)
from prirec.recommender.overview import DISK_NOW, DISK_SOON, FAULTS, SERVER, OverviewReader, PeoplePoint
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import Store
from prirec.types import DAY
from prirec.wire.campaign import PublishedFigures
from support import messages
from support.canaries import Canaries, forms, of_ring
from support.cities import SMALL_PRIVATE, small_city, with_spending
from support.low_floors import low_floor
from support.operator_pages import LIAR, REPORTED, Pages, ServedPage, campaign_under_way, operator_pages
from support.operator_pair import HOUR, PLACES, OperatorPair, few, person

DOCS = Path(__file__).parents[2] / "docs" / "operator"
AVERAGES = {"prirec_average", "prirec_average_error", "prirec_average_place_error"}


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        low_floor(patch, 2)
        with operator_pages(Path(folder)) as served:
            for one in (served.recommender, served.helper):
                assert one.log_in().status_code == 204
            yield served


def shown(page: ServedPage) -> dict[str, Any]:
    found: dict[str, Any] = page.line.get("/operator/overview").json()
    return found


def figures(page: ServedPage) -> dict[str, float]:
    lines = page.line.get("/metrics").text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}


def test_the_recommender_shows_windows_people_sums_and_noise_as_its_store_has_them(pages: Pages) -> None:
    found, pair = shown(pages.recommender), pages.pair
    state, window = pair.state(), pair.window
    assert (found["role"], found["title"], found["time"]) == ("recommender", "a town", int(pair.now))
    assert found["fingerprint"] == fingerprint(pair.leading.founding().identity)
    assert (found["people"]["enrolled"], found["people"]["listed"]) == (8, 8)
    assert [point["people"] for point in found["people"]["points"]] == [8] * 4
    assert [point["joined"] for point in found["people"]["points"]] == [8, 0, 0, 0]
    assert found["people"]["days"] == [[0, 8]]
    campaign = found["campaign"]
    assert (campaign["phase"], campaign["round"], campaign["rounds"], campaign["floor"]) == ("learning", 1, 2, 5)
    assert campaign["window"] == {
        "kind": "learning", "people": 8, "reports": REPORTED, "opens": window.opens, "closes": window.closes,
        "extended": 0,
    }  # fmt: skip
    assert [(one["kind"], one["survivors"], one["rostered"]) for one in campaign["sums"]] == [
        ("visits", 7, 8), ("moments", 6, 7), ("learning", 5, 6)
    ]  # fmt: skip
    assert sum(one["many"] for one in found["settled"]) == 3  # the liar's, in each sum that is over
    assert (found["visits"]["places"], len(found["visits"]["largest"])) == (12, 12)
    opened = [one[1] for one in found["visits"]["largest"]]
    assert opened == sorted(opened, reverse=True)
    assert found["model"]["rounds"] == state.rounds == 1
    assert found["model"]["noise"] == pytest.approx(state.variance**0.5, rel=1e-3)
    assert [one[0] for one in found["model"]["by_round"]] == [1]
    assert found["box_key"] is True
    assert found["disk"]["bytes"] > 10_000


def test_the_helper_shows_what_it_knows_and_of_devices_the_list_alone(pages: Pages) -> None:
    found, recommender = shown(pages.helper), shown(pages.recommender)
    assert (found["role"], found["people"]["enrolled"], found["people"]["listed"]) == ("helper", None, 8)
    assert found["people"]["days"] == []
    assert found["campaign"]["window"]["reports"] is None
    for alike in ("visits", "model", "deployment", "box_key", "certificates"):
        assert found[alike] == recommender[alike]
    assert (found["log"]["entries"], found["log"]["signed"]) == (recommender["log"]["entries"],) * 2
    assert found["signs"] == []


def test_the_log_says_how_far_the_helper_has_signed_it(pages: Pages) -> None:
    log, head = shown(pages.recommender)["log"], pages.pair.leading.head()
    assert (log["entries"], log["signed"], log["signed_at"]) == (head.length, head.length, int(pages.pair.now))
    assert [one["index"] for one in log["newest"]] == list(range(head.length - 1, -1, -1))
    assert all(one["signed"] for one in log["newest"])


def test_metrics_say_the_same_as_the_page(pages: Pages) -> None:
    found, gauges = shown(pages.recommender), figures(pages.recommender)
    wanted = {
        "prirec_people": 8, "prirec_listed_people": 8, "prirec_campaign_finished_rounds": 1,
        "prirec_campaign_floor": 5, "prirec_window_reports": REPORTED, "prirec_window_people": 8,
        "prirec_sums_opened": 3, "prirec_last_sum_people": 5, "prirec_log_entries": found["log"]["entries"],
        "prirec_signature_time_seconds": pages.pair.now, "prirec_visits_noise": found["visits"]["noise"],
        'prirec_model_size{of="published"}': found["model"]["published"], "prirec_conducted": 1, "prirec_box_key": 1,
        'prirec_certificate_end_seconds{certificate="server"}': found["certificates"]["server"],
        'prirec_campaign_phase{phase="learning"}': 1,
    }  # fmt: skip
    assert {name: gauges[name] for name in wanted} == wanted
    assert "prirec_people" not in figures(pages.helper)


def test_reports_that_are_refused_when_they_are_posted_are_counted_by_reason(pages: Pages) -> None:
    page, pair = pages.recommender, pages.pair
    founding, me = page.store.founding(), person(LIAR)
    door = Authenticator(founding.deployment, founding.token_key, clock=lambda: pair.now, entropy=bytes)
    sent = {"authorization": f"Bearer {door.session(me.public, made=int(pair.now)).token}"}
    honest = pair.report(LIAR)
    bodies = {
        "AUTH": encode(pair.report(0)), "DECODE": b"x", "PARAMS_MISMATCH": encode(replace(honest, held=bytes(32))),
        "taken": encode(honest),
    }  # fmt: skip
    for result, body in bodies.items():
        answer = page.line.post(f"{page.public}/v1/reports", content=body, headers=sent)
        assert (answer.status_code == 200) == (result == "taken")
        assert figures(page)[f'prirec_reports_total{{result="{result}"}}'] == 1
    pair.now += 2  # what was read before is old by now
    posted = {one["reason"]: one["many"] for one in shown(page)["posted"] if one["what"].startswith("report")}
    assert posted == {FAULTS[fault]: 1 for fault in bodies if fault != "taken"}


# Nothing private


def test_no_key_name_report_vector_or_noise_is_in_a_byte_of_page_answer_or_metrics(pages: Pages) -> None:
    pair, canaries = pages.pair, Canaries()
    for who, page in (("recommender", pages.recommender), ("helper", pages.helper)):
        founding = page.store.founding()
        canaries.add(f"{who}: identity", forms(founding.identity))
        canaries.add(f"{who}: key of sessions", forms(founding.token_key))
        canaries.add(f"{who}: token", forms(page.token.encode()))
        canaries.add(f"{who}: session", forms(next(iter(page.line.cookies.values())).encode()))
        for (secret,) in page.store._all("SELECT secret FROM box_keys"):
            canaries.add(f"{who}: box key", forms(secret))
    for at in range(pair.people):
        canaries.add("name of a device", forms(person(at).public))
    for (at, _), report in pair.reports.items():
        canaries.add("report", forms(report.leader_box[:64]) | forms(report.helper_box[:64]))
        canaries.add("vector", of_ring(pair.value(at, pair.task)))
    for who, drawn in pair.drawn:
        if who in ("leader", "helper"):
            canaries.add("noise", forms(drawn[:32]))
    said = [file.read_bytes() for file in built("operator").rglob("*") if file.is_file()]
    for page in (pages.recommender, pages.helper):
        for path in ("/operator/", "/operator/overview", "/metrics"):
            answer = page.line.get(path)
            assert answer.status_code == 200
            said += [answer.content, str(answer.headers).encode()]
    assert [canaries.found(body) for body in said] == [set()] * len(said)
    assert canaries.found(encode(pair.report(LIAR)))  # what is searched for would be found


# Signs


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OperatorPair:
    low_floor(monkeypatch, 2)
    return OperatorPair(tmp_path)


def signs(pair: OperatorPair, *, store: Any = None, at: float | None = None) -> dict[str, str]:
    reader = OverviewReader(store or pair.leading, certificates={}, clock=lambda: pair.now if at is None else at)
    return {sign.text: sign.level for sign in reader.read().signs}


def test_before_anything_has_happened_the_verdict_says_what_is_next(pair: OperatorPair) -> None:
    found = OverviewReader(pair.leading, certificates={}, clock=lambda: pair.now).read()
    assert found.verdict == "8 people enrolled, 12 places, no campaign yet: prirec recommender rounds begin"
    assert (found.campaign, found.visits, found.model, found.settled, found.box_key) == (None, None, None, (), None)
    assert signs(pair) == {"the helper has not signed the log yet: devices follow nothing": "bad"}
    pair.run()
    assert signs(pair) == {}


def test_a_campaign_that_nobody_conducts_or_that_failed_calls_for_the_operator(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    assert signs(pair) == {"no worker conducts the campaign": "bad"}
    pair.leading.lease(b"a worker", 1e9)
    assert signs(pair) == {}
    end_campaign(pair.leading)
    assert list(signs(pair).values()) == ["bad"]
    assert "its operator ended it" in next(iter(signs(pair)))


def test_a_window_to_which_too_few_come_is_worth_a_look(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    pair.leading.lease(b"a worker", 1e9)
    pair.post(0, 1)
    pair.now += HOUR
    pair.run()
    assert signs(pair) == {"the window was extended 1 time: too few devices report": "warn"}
    assert len(OverviewReader(pair.leading, certificates={}, clock=lambda: pair.now).read().people.points) == 1


@pytest.mark.parametrize(("age", "level"), [(1800, None), (2 * HOUR, "warn"), (DAY + 60, "bad")])
def test_a_late_signature_of_the_helper_is_told(pair: OperatorPair, age: int, level: str | None) -> None:
    pair.run()
    for store in (pair.leading, pair.helping):
        assert list(signs(pair, store=store, at=pair.now + age).values()) == ([level] if level else [])


@pytest.mark.parametrize(("left", "level"), [(90, None), (30, "warn"), (5, "bad"), (-1, "bad")])
def test_a_certificate_that_ends_is_told(tmp_path: Path, pair: OperatorPair, left: int, level: str | None) -> None:
    pair.run()
    end = datetime.fromtimestamp(pair.now, UTC) + timedelta(days=left)
    made = tls.new_authority("a town", now=end - timedelta(days=tls.AUTHORITY_DAYS))
    made.write(tmp_path / "made.pem", tmp_path / "made.key")
    for store, command in (
        (pair.leading, "prirec recommender keys rotate"),
        (pair.helping, "prirec helper certificate"),
    ):
        reader = OverviewReader(store, certificates={SERVER: tmp_path / "made.pem"}, clock=lambda: pair.now)
        assert [sign.level for sign in reader.read().signs] == ([level] if level else [])
        assert all(command in sign.text for sign in reader.read().signs)


def test_a_box_key_that_a_restore_has_lost_calls_for_the_operator(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    pair.helping.joint.forget()
    assert list(signs(pair, store=pair.helping)) == [
        "the campaign's box key is missing, as after a restore: end it and begin another one"
    ]


@pytest.mark.parametrize(("free", "level"), [(DISK_SOON + 1, None), (DISK_SOON - 1, "warn"), (DISK_NOW - 1, "bad")])
def test_a_disk_that_fills_up_is_told(
    pair: OperatorPair, monkeypatch: pytest.MonkeyPatch, free: int, level: str | None
) -> None:
    pair.run()
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(total=10**12, free=free))
    assert list(signs(pair).values()) == ([level] if level else [])


def test_what_was_read_a_moment_ago_is_not_read_again(pair: OperatorPair) -> None:
    now = [pair.now]
    reader = OverviewReader(pair.leading, certificates={}, clock=lambda: now[0])
    first = reader.read()
    now[0] += 0.5
    assert reader.read() is first
    now[0] += 1.0
    assert reader.read() is not first


def test_nobody_is_counted_twice_when_the_store_was_away_in_the_middle_of_the_lists(
    pair: OperatorPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_under_way(pair)
    reader = OverviewReader(pair.leading, certificates={}, clock=lambda: pair.now)
    real, away = operator.own_document, [True]

    def own_document(store: Store, name: bytes) -> bytes:
        body = real(store, name)
        if away and b"prirec window" in body:
            away.clear()
            raise PassingError("the database is away")
        return body

    monkeypatch.setattr(operator, "own_document", own_document)
    with pytest.raises(PassingError):
        reader._history.read(joint=True)
    assert reader.read().people == OverviewReader(pair.leading, certificates={}, clock=lambda: pair.now).read().people


def test_lists_that_are_deleted_when_a_campaign_is_over_are_not_counted_on(pair: OperatorPair) -> None:
    campaign_under_way(pair)
    reader = OverviewReader(pair.leading, certificates={}, clock=lambda: pair.now)
    assert reader.read().settled
    pair.post(3, 4, 5)
    pair.now += HOUR
    pair.run()
    pair.run()
    found = reader.read()
    assert (found.campaign is not None and found.campaign.phase, found.settled, found.box_key) == ("over", (), None)
    assert found.model is not None
    assert [one[0] for one in found.model.by_round] == [1, 2]
    pair.begin(few())
    pair.now += 2
    assert reader.read().visits is None  # of the new campaign nothing is open


def test_quality_figures_are_shown_when_their_sum_is_open_and_drowned_ones_without_a_value(pair: OperatorPair) -> None:
    pair.begin(few(privacy={"quality": 0.2}))
    for _ in range(5):  # visits, moments, two rounds, quality
        for store in (pair.leading, pair.helping):
            assert OverviewReader(store, certificates={}, clock=lambda: pair.now).read().quality is None
        pair.run()
        pair.post(*range(6))
        pair.now += HOUR
        pair.run()
    pair.run()
    published = published_figures(pair.leading)
    assert published is not None
    for store in (pair.leading, pair.helping):
        found = OverviewReader(store, certificates={}, clock=lambda: pair.now).read()
        assert found.quality is not None
        assert found.quality.reports == published.reports == 6
        assert [one.name for one in found.quality.figures] == list(FIGURES.values())
        known = {one.name: one.value for one in found.quality.figures if one.value is not None}
        assert known == {FIGURES[name]: pytest.approx(one.value, rel=1e-3) for name, one in published.figures.items()}
        assert Metrics().page(found).count(b"prirec_quality{") == len(known)
        assert found.campaign is not None
        assert found.campaign.sums[-1].kind == "quality"


def test_a_quality_figure_is_shown_with_twice_its_error(pair: OperatorPair, monkeypatch: pytest.MonkeyPatch) -> None:
    told = PublishedFigures(90, {"auc": Estimate(0.81234, 0.003, 0.004)})
    monkeypatch.setattr(operator, "published_figures", lambda store: told)
    found = OverviewReader(pair.leading, certificates={}, clock=lambda: pair.now).read()
    assert found.quality is not None
    assert [(one.value, one.error) for one in found.quality.figures] == [(0.8123, 0.01)] + [(None, 0.0)] * 3
    lines = Metrics().page(found).decode().splitlines()
    assert 'prirec_quality{figure="AUC"} 0.8123' in lines
    assert 'prirec_quality_error{figure="AUC"} 0.01' in lines


def test_averages_over_visits_are_shown_with_twice_their_errors(pair: OperatorPair) -> None:
    city = with_spending(small_city(people=40, places=PLACES, records=300))
    encoding = plan_encoding(city, Popularity(), Features(averages=("spend",)))
    publish_catalogue(pair.leading, CatalogueSource(city.places, encoding))
    with pytest.raises(UsageError, match=messages.OTHER_AVERAGES):
        pair.begin(few(features={"averages": ("price",)}))
    pair.begin(few())  # the catalogue says what is averaged
    assert published_averages(pair.leading) == ()
    pair.run()
    pair.post(*range(6))
    pair.now += HOUR
    pair.run()
    (published,) = published_averages(pair.leading)
    assert published == published_averages(pair.helping)[0]
    assert published.row[1].startswith(f"{published.value:.4g} ± {2 * published.noise:.2g} in the city, ")
    for store in (pair.leading, pair.helping):
        found = OverviewReader(store, certificates={}, clock=lambda: pair.now).read()
        assert found.visits is not None
        (shown,) = found.visits.averages
        assert (shown.name, shown.value) == ("spend", pytest.approx(published.value, rel=1e-3))
        assert shown.error == pytest.approx(2 * published.noise, rel=1e-3)
        assert shown.at_a_place == (pytest.approx(2 * published.error, rel=1e-3) if published.spread else None)
        lines = Metrics().page(found).decode().splitlines()
        assert f'prirec_average{{column="spend"}} {shown.value}' in lines
        assert f'prirec_average_error{{column="spend"}} {shown.error}' in lines
        if shown.at_a_place is not None:
            assert f'prirec_average_place_error{{column="spend"}} {shown.at_a_place}' in lines
        assert {line.split()[2] for line in lines if line.startswith("# TYPE prirec_average")} == AVERAGES


def test_with_one_operator_there_is_no_list_no_window_and_no_signature(store: Store) -> None:
    """On a file and on PostgreSQL."""
    found_deployment(store, title="Our town")
    town = small_city(people=20, places=15, records=60)
    publish_catalogue(store, CatalogueSource(town.places, plan_encoding(town, Popularity(), Features())))
    for at in range(60):
        store.enrol(person(at).public, day=20_000 + at // 40)
    store.leave(person(0).public)
    begin_campaign(store, SMALL_PRIVATE)
    found = OverviewReader(store, certificates={}, clock=lambda: 1e9).read()
    assert found.campaign is not None
    assert (found.campaign.phase, found.campaign.people, found.campaign.window) == ("visits", 59, None)
    assert (found.people.enrolled, found.people.listed, found.people.days) == (59, None, ((20_000, 39), (20_001, 20)))
    assert found.people.points == (PeoplePoint("campaign 0", 0, 59, None, None),)
    assert (found.log.entries, found.log.signed, found.log.newest[0].signed, found.box_key) == (2, None, None, None)
    assert found.disk.database.startswith("SQLite 3." if store.file else "PostgreSQL ")
    assert found.disk.bytes > 10_000
    assert (found.disk.free is None) == (store.file is None)
    assert [sign.text for sign in found.signs] == ["no worker conducts the campaign"]
    assert b"prirec_listed_people 5" not in Metrics().page(found)


# Grafana and alerts


def named_in(expression: str) -> set[str]:
    words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in expression).split()
    return {word for word in words if word.startswith(("prirec_", "process_"))}


@pytest.fixture(scope="module")
def known(pages: Pages) -> set[str]:
    """Every name that Prometheus may ask for: of samples that are there, and of counters that have none yet."""
    lines = (pages.recommender.line.get("/metrics").text + pages.helper.line.get("/metrics").text).splitlines()
    samples = {line.partition("{")[0].partition(" ")[0] for line in lines if line and line[0] != "#"}
    kinds = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
    parts: dict[str, tuple[str, ...]] = {"histogram": ("_bucket", "_sum", "_count")}
    declared = {name + part for name, kind in kinds.items() for part in parts.get(kind, ("",)) if kind != "gauge"}
    return samples | declared | AVERAGES | {"prirec_quality", "prirec_quality_error"}  # not in this campaign


def test_every_figure_that_the_dashboard_asks_for_is_in_the_metrics(known: set[str]) -> None:
    dashboard = json.loads((DOCS / "grafana.json").read_text("utf-8"))
    asked = {panel["title"]: {one["expr"] for one in panel["targets"]} for panel in dashboard["panels"]}
    assert len(asked) == len(dashboard["panels"]) > 8
    assert named_in(" ".join(asked["Averages over visits"])) == AVERAGES
    for title, expressions in asked.items():
        names = set().union(*map(named_in, expressions))
        assert names, title
        assert names <= known, title


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    taken = set[tuple[int, int]]()
    for panel in json.loads((DOCS / "grafana.json").read_text("utf-8"))["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_every_figure_that_an_alert_looks_at_is_in_the_metrics(known: set[str]) -> None:
    rules = [
        rule for group in yaml.safe_load((DOCS / "alerts.yml").read_text("utf-8"))["groups"] for rule in group["rules"]
    ]
    assert len(rules) >= 3
    for rule in rules:
        assert named_in(rule["expr"]), rule["alert"]
        assert named_in(rule["expr"]) <= known, rule["alert"]
        assert rule["annotations"]["summary"]
