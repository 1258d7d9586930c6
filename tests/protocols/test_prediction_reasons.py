from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.features.encoding import (
    Affinity,
    Area,
    Clock,
    Closeness,
    Density,
    Distance,
    Encoding,
    Hashed,
    Log,
    Nearest,
    Range,
    Words,
)
from prirec.privacy.popularity_estimate import NEARBY, POPULARITY
from prirec.protocols.prediction import PlacePart, Suggestion, combine, score_places
from prirec.protocols.reasons import Contrast, Reason, Wording, contributions

NAMES = ("age", "category", "popularity")


def groups(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(0, 99))
def test_bias_and_contributions_add_up_to_the_score(m, n, c, M, seed):
    rng = np.random.default_rng(seed)
    w, V = rng.normal(size=m + n + c + 1), rng.normal(size=(m + n + c, 3))
    person, places, context = rng.normal(size=m), rng.normal(size=(M, n)), rng.normal(size=(M, c))
    scores = score_places(
        linear=w, interaction=V, person=person, places=places, context=context, part=PlacePart.of(V, places, first=m)
    )
    parts = contributions(w, V, combine(person, places, context))
    assert w[0] + parts.sum(axis=1) == pytest.approx(scores, abs=1e-10)


def test_a_pair_is_split_in_halves_between_its_features():
    w, V = np.array([9.0, 1.0, 2.0]), np.array([[3.0], [4.0]])
    assert contributions(w, V, np.array([[1.0, 1.0]])).tolist() == [[1.0 + 6.0, 2.0 + 6.0]]


def test_a_feature_that_is_absent_contributes_nothing():
    w, V = np.array([9.0, 1.0, 2.0]), np.array([[3.0], [4.0]])
    assert contributions(w, V, np.array([[0.0, 1.0]])).tolist() == [[0.0, 2.0]]


def test_one_hot_columns_of_a_category_are_one_reason():
    # columns: age, category = bar, category = park, popularity; no pairs
    samples = np.array([[1.0, 1, 0, 0.5], [1.0, 0, 1, 0.5]])
    parts = contributions(np.array([0.0, 5.0, 2.0, -2.0, 1.0]), np.zeros((4, 1)), samples)
    contrast = Contrast.of(parts, groups=groups(0, 1, 1, 2), group_names=NAMES)
    assert contrast.reasons(0) == (Reason("category", 2.0),)
    assert contrast.reasons(1) == (Reason("category", -2.0),)


def test_the_person_shows_through_pairs_only():
    samples = np.array([[1.0, 1, 0], [1.0, 0, 1]])  # age, bar, park
    linear_only = contributions(np.array([0.0, 50.0, 0, 0]), np.zeros((3, 1)), samples)
    assert Contrast.of(linear_only, groups=groups(0, 1, 1), group_names=NAMES).reasons(0) == ()
    paired = contributions(np.array([0.0, 50.0, 0, 0]), np.array([[1.0], [2.0], [0.0]]), samples)
    assert Contrast.of(paired, groups=groups(0, 1, 1), group_names=NAMES).reasons(0) == (
        Reason("age", 0.5),
        Reason("category", 0.5),
    )


def test_the_three_strongest_are_kept_and_upward_ones_come_first():
    contrast = Contrast(np.array([[0.3, -0.9, 0.1, 0.5, -0.2]]), ("a", "b", "c", "d", "e"))
    assert contrast.reasons(0) == (Reason("d", 0.5), Reason("a", 0.3), Reason("b", -0.9))
    assert contrast.reasons(0, most=1) == (Reason("b", -0.9),)


def test_a_contribution_that_rounds_to_zero_is_no_reason():
    assert Contrast(np.array([[0.004, -0.004, 0.006]]), NAMES).reasons(0) == (Reason("popularity", 0.006),)


def test_a_single_matched_place_has_nothing_to_be_compared_with():
    assert Contrast.of(np.array([[1.0, 2.0]]), groups=groups(0, 1), group_names=NAMES).reasons(0) == ()


def test_pulls_over_the_matched_places_cancel():
    parts = np.random.default_rng(5).normal(size=(8, 4))
    contrast = Contrast.of(parts, groups=groups(0, 1, 1, 2), group_names=NAMES)
    assert contrast.pulls.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)


def test_no_matched_places_give_an_empty_contrast():
    assert Contrast.of(np.zeros((0, 2)), groups=groups(0, 1), group_names=NAMES).pulls.shape == (0, 3)


def test_reasons_do_not_print():
    assert "popularity" not in repr(Reason("popularity", 0.824))
    assert "0.824" not in repr(Contrast(np.array([[0.824]]), ("popularity",)))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: contributions(np.zeros(3), np.zeros((3, 2)), np.zeros((4, 3))),
        lambda: contributions(np.zeros(4), np.zeros((3, 2)), np.zeros((4, 2))),
        lambda: contributions(np.zeros(4), np.zeros((3, 2)), np.full((4, 3), np.nan)),
        lambda: Contrast.of(np.zeros((4, 3)), groups=groups(0, 1), group_names=NAMES),
        lambda: Contrast.of(np.zeros((4, 3)), groups=groups(0, 1, 3), group_names=NAMES),
        lambda: Contrast.of(np.zeros((4, 3)), groups=groups(0, 1, -1), group_names=NAMES),
    ],
)
def test_bad_input_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        bad()


def test_a_suggestion_goes_to_json_whole_and_prints_nothing():
    one = Suggestion("p07", "ramen, Harbour", 1.5, 0.75, (Reason("popularity", 0.5, "popular"),))
    reasons = [{"name": "popularity", "pull": 0.5, "words": "popular"}]
    whole = {"place": "p07", "about": "ramen, Harbour", "distance_km": 1.5, "probability": 0.75, "reasons": reasons}
    assert one.to_dict() == whole
    assert "p07" not in repr(one)


# In words


CITY = Encoding(
    person=(Range(column="age", low=0, high=100), Area(column="home area", centres=((0.0, 0.0), (1.0, 1.0)))),
    place=(
        Words(column="category", words=("cafe", "bar, late")), Hashed(column="brand", buckets=2),
        Log(column="price_level"),
    ),
    popularity=(Log(column=POPULARITY), Log(column=NEARBY), Log(column="visitors")),
    context=(
        Distance(column="distance from home", shift=0, scale=1),
        Nearest(column="distance from own visits", shift=0, scale=1),
        Density(column="density of own visits", scales_km=(1, 2), shift=0, spread=1),
        Affinity(column="own visits by category", of="category", shares=(0.5, 0.5)),
        Closeness(column="own visits by price_level", of="price_level", shift=0, scale=1),
        Clock(column="time"),
        Words(column="weather", words=("rain",)),
    ),
)  # fmt: skip
GROUP = {name: at for at, name in enumerate(CITY.labels())}
FIRST = {name: int(np.flatnonzero(CITY.groups()[0] == at)[0]) for name, at in GROUP.items()}
WIDTH = len(CITY.names())


def wording(*, of: str = "age", here: float = 0.0, there: float = 0.0, cafe: bool = True, bar: bool = False) -> Wording:
    """Two matched places that differ in one column; the person knows a cafe, and no bar."""
    samples, familiar = np.zeros((2, WIDTH)), np.zeros(9, dtype=np.bool_)
    samples[:, FIRST[of]] = here, there
    samples[0, FIRST["category"] : FIRST["category"] + 2] = cafe, bar
    familiar[FIRST["category"] - CITY.width(CITY.person)] = True
    pulls = np.zeros((2, WIDTH))
    pulls[0, FIRST["category"] : FIRST["category"] + 2] = 0.2, -0.7
    return Wording(CITY, samples, pulls, familiar)


def told(group: str, *, liked: bool = True, **how) -> str:
    return wording(**how).of(GROUP[group], 0, liked=liked)[1]


@pytest.mark.parametrize(
    ("column", "more", "less"),
    [
        ("distance from home", "far from home", "close to home"),
        ("distance from own visits", "far from your other places", "close to your other places"),
        ("density of own visits", "close to your other places", "far from your other places"),
        (
            "own visits by category",
            "like places you have visited, by category",
            "unlike places you have visited, by category",
        ),
        (
            "own visits by price_level",
            "like places you have visited, by price level",
            "unlike places you have visited, by price level",
        ),
        (POPULARITY, "popular", "little visited"),
        (NEARBY, "in a popular area", "in a quiet area"),
        ("visitors", "popular", "little visited"),
        ("price_level", "higher price level than most", "lower price level than most"),
    ],
)
def test_a_number_is_told_by_how_it_differs_from_the_others_nearby(column, more, less):
    for liked in (True, False):
        assert told(column, of=column, here=1.0, there=0.5, liked=liked) == more
        assert told(column, of=column, here=0.5, there=1.0, liked=liked) == less
    assert told(column, of=column, here=0.5, there=0.5) == f"its {column.replace('_', ' ')}"


def test_the_nearest_of_the_own_places_and_their_density_are_one_reason():
    near, dense = "distance from own visits", "density of own visits"
    found = wording(of=near, here=0.0, there=1.0)
    found.samples[:, FIRST[dense] + 1] = 0.0, 1.0  # the nearest is near, and most are far: it may not say both
    pulls = np.zeros((2, len(GROUP)))
    pulls[0, [GROUP[near], GROUP[dense]]] = 0.5, -0.2
    (reason,) = Contrast(pulls, tuple(GROUP), found).reasons(0)
    assert (reason.words, reason.pull) == ("close to your other places", pytest.approx(0.3))


def test_nobody_is_told_of_a_home_that_they_never_gave():
    found = [
        replace(wording(of="distance from home", here=here, there=1.0), home="the middle of your visits").of(
            GROUP["distance from home"], 0, liked=True
        )[1]
        for here in (0.5, 2.0)
    ]
    assert found == ["close to the middle of your visits", "far from the middle of your visits"]


def test_a_word_is_compared_with_places_that_the_person_knows():
    assert told("category") == "like other cafe places you visited"
    assert told("category", liked=False) == "less your kind: cafe"
    assert told("category", cafe=False, bar=True) == "bar, late"
    assert told("category", cafe=False) == "its category"
    assert told("brand") == "its brand"


def test_most_others_must_be_below_or_above_where_it_is_said():
    samples, at = np.zeros((5, WIDTH)), FIRST["price_level"]
    samples[:, at] = 0.0, 0.0, 0.0, 1.0, 9.0
    made = Wording(CITY, samples, np.zeros((5, WIDTH)), np.zeros(9, dtype=np.bool_))
    found = [made.of(GROUP["price_level"], position, liked=True)[1] for position in range(5)]
    assert found == ["its price level"] * 3 + ["higher price level than most"] * 2  # the mean is 2


def test_what_speaks_against_a_place_is_about_something_else():
    pulls = np.zeros((2, len(GROUP)))
    pulls[0, GROUP[NEARBY]], pulls[0, GROUP[POPULARITY]], pulls[0, GROUP["age"]] = 0.5, -0.3, -0.2
    samples = np.zeros((2, WIDTH))
    samples[0, [FIRST[NEARBY], FIRST[POPULARITY]]] = 1.0
    made = Wording(CITY, samples, np.zeros((2, WIDTH)), np.zeros(9, dtype=np.bool_))
    found = Contrast(pulls, CITY.labels(), made).reasons(0)
    assert Suggestion("p07", "", None, 0.75, found).why == "in a popular area; but fits your age less"


def test_of_several_words_the_one_that_speaks_for_or_against_is_told():
    assert told("category", bar=True) == "like other cafe places you visited"
    assert told("category", bar=True, liked=False) == "less your kind: bar, late"


def test_people_and_moments_fit_or_fit_less():
    assert (told("age"), told("age", liked=False)) == ("fits your age", "fits your age less")
    assert (told("home area"), told("home area", liked=False)) == ("fits your area", "fits your area less")
    assert (told("time"), told("time", liked=False)) == ("fits the time", "fits the time less")
    assert told("weather", of="weather", here=1.0) == "fits the weather"


def test_reasons_carry_their_words_and_their_figures():
    pulls = np.zeros((2, len(GROUP)))
    pulls[0, GROUP["category"]], pulls[0, GROUP["visitors"]] = 0.4, -0.3
    made = wording(of="visitors", here=0.0, there=2.0)
    found = Contrast(pulls, CITY.labels(), made).reasons(0)
    assert [(one.name, one.pull, one.words) for one in found] == [
        ("category", 0.4, "like other cafe places you visited"), ("visitors", -0.3, "little visited"),
    ]  # fmt: skip
    one = Suggestion("p07", "", None, 0.75, found)
    assert one.why == "like other cafe places you visited; but little visited"
    assert Suggestion("p07", "", None, 0.75, found[:1]).why == "like other cafe places you visited"
    assert Suggestion("p07", "", None, 0.75, found[1:]).why == "but little visited"
    assert Suggestion("p07", "", None, 0.75, ()).why == ""
    assert Reason("category", 0.4).words == "category"


TWO_COUNTS = Encoding(
    person=(), place=(Words(column="category", words=("cafe",)), Words(column="tags", words=("cafe", "view"))),
    popularity=(Log(column=POPULARITY), Log(column="visitors")), context=(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pulls", "reasons"),
    [
        ((0, 0, 0.5, 0.2), [(POPULARITY, 0.7, "popular")]),
        ((0, 0, 0.5, -0.2), [(POPULARITY, 0.3, "popular")]),  # one count for the place, the other against it
        ((0, 0, 0.2, -0.5), [("visitors", -0.3, "little visited")]),
        ((0, 0, 0.5, -0.5), []),
        ((0.4, -0.1, 0, 0), [("category", 0.3, "like other cafe places you visited")]),
        ((0.1, -0.4, 0, 0), [("tags", -0.3, "less your kind: cafe")]),
        (
            (0.3, 0.3, 0.5, 0.2),
            [(POPULARITY, 0.7, "popular"), ("category", 0.6, "like other cafe places you visited")],
        ),
    ],
)
def test_a_phrase_is_told_once_and_nothing_beside_its_opposite(pulls, reasons):
    samples = np.array([[1, 1, 0, 0.9, 0.1], [0, 0, 0, 0.1, 0.9]])  # above the mean by one count, below by the other
    familiar = np.array([True, True, False, False, False])
    made = Wording(TWO_COUNTS, samples, np.zeros((2, 5)), familiar)
    found = Contrast(np.array([pulls, np.zeros(4)]), TWO_COUNTS.labels(), made).reasons(0)
    assert [(one.name, pytest.approx(one.pull), one.words) for one in found] == reasons


def test_wording_does_not_print():
    assert "0.7" not in repr(wording())
