"""Comparisons: presets, settings, models of one's own, registered ones, and what is said where a piece is missing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import prirec
from prirec.errors import UsageError
from prirec.features.samples import Records
from prirec.simulate.setup import Setup
from support import messages


@pytest.fixture(scope="module")
def city() -> prirec.City:
    return prirec.make_city(people=250, seed=2)


class Popular:
    """A place scores by how often it was visited in the training records."""

    name = "popular"
    collects = "counts of visits"
    settings = {"features.dynamic": False}  # noqa: RUF012

    def fit(self, setup: Setup) -> "Popular":
        train = setup.samples.train
        self.counts = np.bincount(train.place[train.label > 0], minlength=len(setup.samples.places))
        assert not setup.settings.features.dynamic
        return self

    def scores(self, records: Records) -> np.ndarray:
        return np.log1p(self.counts[records.place])


def test_presets_are_compared_and_each_is_a_fit(city: prirec.City, tmp_path: Path) -> None:
    seen: list[str] = []
    found = prirec.compare(
        city, ["fm", "paper", "rounds"], iterations=2, seed=1, progress=lambda name, report: seen.append(name)
    )
    assert [row["model"] for row in found.table] == ["fm", "paper", "rounds"]
    assert seen == ["fm"] * 3 + ["paper"] * 3 + ["rounds"] * 3  # once when its turn comes, then each iteration
    alone = prirec.fit(city, prirec.settings("rounds", iterations=2, seed=1))
    assert found["rounds"].quality == alone.quality
    assert found.table[2]["auc"] == alone.quality.auc
    person = alone.people[3]
    assert found["rounds"].recommend(person, k=2).to_dict() == alone.recommend(person, k=2).to_dict()
    assert "every profile, every record" in repr(found)
    assert found.to_polars().height == 3
    with pytest.raises(UsageError, match=messages.no_fit_of("private")):
        _ = found["private"]


def test_a_report_is_written(city: prirec.City, tmp_path: Path) -> None:
    found = prirec.compare(city, ["rounds", Popular], iterations=2)
    page = found.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "popular" in page
    assert "Recommendations for one person" in page


def test_a_comparison_of_own_models_alone_has_a_report_without_curves(city: prirec.City, tmp_path: Path) -> None:
    page = prirec.compare(city, [Popular()]).report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "How they learnt" not in page
    assert "Recommendations for one person" not in page


def test_a_class_an_object_and_a_name_of_ones_own(city: prirec.City) -> None:
    one = prirec.compare(city, [Popular]).table[0]
    other = prirec.compare(city, {"mine": Popular()}).table[0]
    assert (one["model"], other["model"]) == ("popular", "mine")
    assert one["auc"] == other["auc"] > 0.5
    assert one["collects"] == "counts of visits"


def test_settings_are_compared_as_they_are(city: prirec.City) -> None:
    chosen = {str(k): prirec.settings("rounds", iterations=2, features={"areas": k}) for k in (2, 3)}
    assert [row["model"] for row in prirec.compare(city, chosen).table] == ["2", "3"]
    with pytest.raises(UsageError, match=messages.CHANGES_OF_WHOLE_SETTINGS):
        prirec.compare(city, chosen, iterations=3)


def test_popularity_alone_ranks_by_visitors_of_the_training_records(city: prirec.City) -> None:
    found = prirec.compare(city, ["popularity", Popular], seed=4)
    popularity, own = found.entries
    train = popularity.outcome.setup.samples.train
    visitors = [
        len(set(train.person[(train.place == j) & (train.label > 0)].tolist())) for j in range(len(city.places))
    ]
    test = popularity.outcome.setup.samples.test
    assert popularity.outcome.test_scores.tolist() == [visitors[j] for j in test.place.tolist()]
    assert np.isnan(popularity.outcome.quality.log_loss)  # counts are no log-odds
    assert not np.isnan(own.outcome.quality.log_loss)
    # its lists: the same people as the other model's, and the visitors decide
    assert popularity.ranked.person.tolist() == own.ranked.person.tolist()
    assert 0 < found.table[0]["ndcg_low"] < found.table[0]["ndcg"] < found.table[0]["ndcg_high"]


def test_a_model_of_ones_own_is_ranked_by_its_scores_of_candidates(city: prirec.City) -> None:
    """One that knows the test has the best list there is; one that turns it around has the worst."""

    class Oracle:
        def __init__(self, sign: float) -> None:
            self.sign, self.name = sign, f"oracle {sign:+.0f}"

        def fit(self, setup: Setup) -> "Oracle":
            test = setup.samples.test
            self.places = len(setup.samples.places)
            self.there = set(
                (test.person[test.label > 0].astype(int) * self.places + test.place[test.label > 0]).tolist()
            )
            return self

        def scores(self, records: Records) -> np.ndarray:
            keys = records.person.astype(int) * self.places + records.place
            return self.sign * np.array([key in self.there for key in keys.tolist()], dtype=np.float64)

    best, worst = prirec.compare(city, [Oracle(1.0), Oracle(-1.0)]).table
    assert (best["auc_nearby"], worst["auc_nearby"]) == (1.0, 0.0)
    assert worst["ndcg"] < 0.2 < 0.5 < best["ndcg"] < 1.0  # a place beyond 5 km from home is no candidate, and a miss


def test_a_fit_is_put_beside_others_on_the_same_records_with_the_same_features(city: prirec.City) -> None:
    chosen = prirec.settings("rounds", iterations=2, seed=5, data={"split": "time"}, features={"own_history": True})
    fit = prirec.fit(city, chosen)
    found = fit.against(["fm", "popularity"])
    own, fm, popularity = found.entries
    assert own.outcome.quality == fit.quality
    assert fm.outcome.setup.samples.features == own.outcome.setup.samples.features
    for other in (fm, popularity):
        assert np.array_equal(other.outcome.setup.samples.test.place, own.outcome.setup.samples.test.place)
    between = found.judged.difference(0, 1, "recall")
    assert between is not None
    assert between.difference == pytest.approx(found.table[0]["recall"] - found.table[1]["recall"])
    assert "'rounds'" in found.judged.worth()
    assert "'fm'" in found.judged.worth()
    with pytest.raises(UsageError, match=messages.two_models_called("rounds")):
        fit.against(["rounds"])


def test_where_another_split_was_tested_no_difference_is_told(city: prirec.City) -> None:
    models = {str(seed): prirec.settings("rounds", iterations=1, seed=seed) for seed in (1, 2)}
    assert prirec.compare(city, models).judged.difference(0, 1, "recall") is None


# entry points: a package on the path, as an installed one would be


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "their_models.py").write_text(
        "import numpy as np\n"
        "class Constant:\n"
        "    collects = 'nothing'\n"
        "    def fit(self, setup): return self\n"
        "    def scores(self, records): return np.zeros(len(records))\n",
        encoding="utf-8",
    )
    meta = tmp_path / "their_models-1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: their-models\nVersion: 1\n", encoding="utf-8")
    (meta / "entry_points.txt").write_text(
        "[prirec.models]\nconstant = their_models:Constant\ngone = their_models:Gone\nlost = no_such_module:Lost\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_models", None)


@pytest.mark.usefixtures("installed")
def test_a_registered_model_is_found_by_its_name(city: prirec.City) -> None:
    (row,) = prirec.compare(city, ["constant"]).table
    assert (row["model"], row["auc"], row["collects"]) == ("constant", 0.5, "nothing")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("constnt", messages.joined(messages.no_such_model("constnt"), messages.did_you_mean("constant"))),
        ("gone", messages.model_cannot_be_loaded("their_models:Gone")),
        ("lost", messages.model_cannot_be_loaded("no_such_module:Lost")),
    ],
)
def test_unknown_and_broken_registrations_are_refused_with_the_reason(city: prirec.City, name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        prirec.compare(city, [name])


class NoFit:
    pass


class NeedsMore:
    def __init__(self, size: int) -> None: ...
    def fit(self, setup: Setup) -> None: ...


class FitsNothing:
    def fit(self, setup: Setup) -> None: ...


class Scores(Popular):
    def __init__(self, found: object) -> None:
        self.found = found

    def scores(self, records: Records) -> object:
        return self.found(len(records))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (NoFit, messages.not_a_model("'NoFit'")),
        (NoFit(), messages.not_a_model("'NoFit'")),
        (3, messages.not_a_model("'int'")),
        (NeedsMore, messages.MODEL_NEEDS_ARGUMENTS),
        (FitsNothing, messages.fit_returned("NoneType", model="FitsNothing")),
        (Scores(lambda many: np.zeros((many, 1))), messages.SCORES_OF_ANOTHER_SHAPE),
        (Scores(lambda many: np.zeros(many - 1)), messages.SCORES_OF_ANOTHER_SHAPE),
        (Scores(lambda many: ["high"] * many), messages.SCORES_OF_ANOTHER_SHAPE),
        (Scores(lambda many: np.full(many, np.nan)), messages.SCORES_NOT_NUMBERS),
    ],
)
def test_models_without_fit_or_scores_are_refused_with_the_reason(city: prirec.City, model: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        prirec.compare(city, [model])


def test_settings_of_a_model_are_a_mapping(city: prirec.City) -> None:
    odd = Popular()
    odd.settings = ["features.dynamic"]
    with pytest.raises(UsageError, match=messages.SETTINGS_NOT_A_MAPPING):
        prirec.compare(city, [odd])
