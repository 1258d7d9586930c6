"""The columns of the shared model: which there are, that sums of them are exact, and what a noisy sum says of them."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import PRIVATE, ROUNDS
from prirec.features.columns import (
    FINE,
    LARGEST,
    MOST_NUMBERS,
    MOST_WORDS,
    RAREST,
    Columns,
    WordScales,
    columns_of_places,
    moment_rows,
    person_rows,
    product_columns,
)
from prirec.features.encoding import Clock, Encoding, Log, Words
from prirec.rounds.definition import RoundRules
from support.cities import same_bits
from support.hypothesis_settings import FEW, PATIENT
from support.shared_data import CONTEXT, EVERY_KIND, PLACE, POPULARITY, encodings, made_up

COLUMNS = Columns.of(EVERY_KIND)
CORE = ("1", *(name for block in (*PLACE, *POPULARITY, *CONTEXT) for name in block.names()))
OWN_HISTORY = ("near", "dense: 1 km", "dense: 4 km", "own kinds", "own prices")
CLOCK = tuple(f"time: {part}" for part in Clock.PARTS)
PRODUCT_NUMBERS = (
    "price", "stars", "visits", "recent visits", "distance", "near", "dense: 1 km", "own kinds", "own prices", "spent",
)  # fmt: skip  # of several columns of one block, the first
PLACE_WORDS = ("kind: bar", "kind: park", "kind: shop", "tags: new", "tags: old")


def names(columns) -> tuple[str, ...]:
    return tuple(CORE[at] for at in columns)


# Which columns there are


def test_every_block_of_places_and_moments_has_its_columns_in_the_core():
    layout = COLUMNS.layout
    assert layout.core == len(CORE)
    assert names(COLUMNS.place_words + 1) == PLACE_WORDS
    assert names(layout.dense) == tuple(name for name in CORE[1:] if name not in PLACE_WORDS)
    assert names(layout.dense[: layout.place_numbers]) == ("price", "stars")
    assert (COLUMNS.person, COLUMNS.popularity) == (9, 2)
    assert COLUMNS.context == len(layout.dense) - layout.place_numbers
    assert COLUMNS.word_blocks == 4  # work, taste, home, weather


def test_products_are_of_numbers_and_of_the_clock_with_words_of_the_place():
    layout, pairs = COLUMNS.layout, [tuple(names(pair)) for pair in product_columns(COLUMNS.layout)]
    assert names(layout.dense[layout.numbers]) == PRODUCT_NUMBERS
    assert names(layout.dense[layout.clock]) == CLOCK
    wanted = [*combinations_with_replacement(PRODUCT_NUMBERS, 2), *((k, w) for k in CLOCK for w in PLACE_WORDS)]
    assert pairs == wanted
    assert layout.width == layout.core + len(wanted)
    assert [CORE[at] for at in np.flatnonzero(layout.slot >= 0)] == list(PLACE_WORDS)
    assert layout.slot[layout.slot >= 0].tolist() == list(range(layout.slots))


def test_own_history_and_products_have_one_row_for_everyone():
    crossed = set(names(COLUMNS.layout.crossed))
    assert crossed == set(CORE) - set(OWN_HISTORY)
    assert COLUMNS.entries == (COLUMNS.groups >= 0).sum() == COLUMNS.layout.width + 9 * len(crossed)


def test_entries_are_shrunk_together_with_those_of_their_column_and_kind_of_row():
    groups = COLUMNS.groups
    at = {name: CORE.index(name) for name in CORE}
    numbers = groups[0, at["price"]]
    assert {groups[0, at[name]] for name in ("1", "stars", "visits", "distance", "near", "spent")} == {numbers}
    words = {groups[0, at[f"kind: {word}"]] for word in ("bar", "park", "shop")}
    assert len(words) == 1
    assert (
        len({numbers, *words, groups[0, at["tags: new"]], groups[0, at["weather: dry"]], groups[0, at[CLOCK[0]]]}) == 5
    )
    assert len({int(groups[0, at[name]]) for name in CLOCK}) == 1
    products = groups[0, COLUMNS.layout.core :]
    many = len(PRODUCT_NUMBERS) * (len(PRODUCT_NUMBERS) + 1) // 2
    assert (len(set(products[:many])), len(set(products[many:])), len(set(products))) == (1, 1, 2)
    everyone, own, areas = groups[0, at["price"]], groups[1:8, at["price"]], groups[8:, at["price"]]
    assert (len({everyone, *own, *areas}), len(set(own)), len(set(areas))) == (3, 1, 1)


def test_products_are_of_the_first_so_many_numbers_and_words():
    place = (Words(column="w", words=tuple(map(str, range(MOST_WORDS + 3)))), *(Log(column=f"n{i}") for i in range(20)))
    layout = Columns.of(Encoding(place=place, context=(Clock(column="time"),))).layout
    assert (len(layout.numbers), layout.slots) == (MOST_NUMBERS, MOST_WORDS)
    assert layout.slot.max() == MOST_WORDS - 1
    without = Columns.of(Encoding(place=place)).layout
    assert (without.slots, without.width) == (0, without.core + MOST_NUMBERS * (MOST_NUMBERS + 1) // 2)


@PATIENT
@given(encodings())
def test_every_layout_is_of_one_piece(encoding):
    """Each column stands once, and B has an entry wherever a group says so."""
    columns = Columns.of(encoding)
    layout = columns.layout
    assert sorted([0, *(columns.place_words + 1), *layout.dense]) == list(range(layout.core))
    assert len(product_columns(layout)) == layout.width - layout.core
    assert columns.groups.shape == (1 + columns.person, layout.width)
    assert (columns.groups[0] >= 0).all()
    assert columns.entries == (columns.groups >= 0).sum()
    assert columns.size.entries == columns.entries
    assert made_up(encoding).contributions().shape == (5, columns.size.moments)


# Exact sums


def multiples(values: np.ndarray, of: float) -> bool:
    return bool((values * of == np.rint(values * of)).all())


@PATIENT
@given(encodings(), st.integers(0, 2**32), st.sampled_from([0.1, 1.0, 30.0]))
def test_columns_are_whole_multiples_of_a_power_of_two(encoding, seed, spread):
    made = made_up(encoding, seed=seed, spread=spread)
    own = made.own(made.exact_moments())
    assert multiples(own.who, FINE)
    assert multiples(own.context, FINE)
    assert multiples(made.rows.number, FINE)
    assert multiples(made.words.factor, FINE)
    assert multiples(made.words.centre, FINE)
    assert (own.who[:, 0] == 1).all()


@FEW
@given(st.integers(0, 2**32), st.randoms(use_true_random=False))
def test_the_sum_of_moments_has_the_same_bits_in_any_order_of_records(seed, random):
    made = made_up(people=1, records=200, seed=seed, spread=3.0)
    order = list(range(200))
    random.shuffle(order)
    again = made.columns.moments.vectors(made.people, made.context[order], made.label[order], made.offsets)
    assert same_bits(again, made.contributions())


@FEW
@given(encodings(), st.integers(0, 2**32))
def test_a_device_alone_writes_what_the_simulation_writes_for_it(encoding, seed):
    made = made_up(encoding, seed=seed)
    everyone = made.contributions()
    for i in range(5):
        mine = slice(*made.offsets[i : i + 2])
        records = np.array([0, mine.stop - mine.start])
        alone = made.columns.moments.vectors(made.people[i : i + 1], made.context[mine], made.label[mine], records)
        assert same_bits(alone, everyone[i : i + 1])


# The sum of moments


@FEW
@given(encodings(), st.integers(0, 2**32), st.sampled_from([0.3, 5.0, 1e4]), st.booleans())
def test_no_vector_is_longer_than_the_norm_not_even_in_whole_numbers(encoding, seed, spread, private):
    made = made_up(encoding, seed=seed, spread=spread)
    settings = PRIVATE if private else ROUNDS
    rules = RoundRules.sized(settings, people=500, places=6, columns=made.columns)
    vectors = rules.moment_contributions(made.people, made.context, made.label, made.offsets)
    code, norm = rules.codes.moments, Fraction(made.columns.moments.norm)
    for vector in vectors:
        assert np.linalg.norm(vector) <= code.clip * (1 + 1e-12)
        whole = [int(one) for one in code.ring.signed(code.write(vector))]
        if private:
            assert sum(one**2 for one in whole) <= (norm * 2**code.ring.fraction_bits) ** 2
    assert code.clip <= made.columns.moments.norm


def test_people_as_they_usually_are_are_not_clipped():
    """Numbers of about variance 1, a word a column: the norm leaves room for nearly everyone."""
    made = made_up(people=300, records=3000, spread=1.0)
    lengths = np.linalg.norm(made.contributions(), axis=1)
    assert (lengths <= made.columns.moments.norm).mean() > 0.99


def test_without_noise_the_moments_are_exact():
    made = made_up(people=40, records=400, seed=3)
    found, c = made.exact_moments(), made.columns
    who = np.rint(np.clip(made.people.astype(float), -LARGEST, LARGEST) * FINE) / FINE
    moment = np.rint(np.clip(made.context[:, c.popularity :].astype(float), -LARGEST, LARGEST) * FINE) / FINE
    of_person = np.array([moment[a:b].mean(axis=0) for a, b in zip(made.offsets, made.offsets[1:], strict=False)])
    squares = np.array([(moment[a:b] ** 2).mean(axis=0) for a, b in zip(made.offsets, made.offsets[1:], strict=False)])
    np.testing.assert_allclose(found.person_mean, who.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.moment_mean, of_person.mean(axis=0), rtol=1e-12)
    words = np.setdiff1d(np.arange(c.person), c.person_numbers)
    np.testing.assert_allclose(found.person_sd[words], np.sqrt(np.maximum(who.mean(axis=0)[words], RAREST)))
    np.testing.assert_allclose(found.person_sd[c.person_numbers], who.std(axis=0)[c.person_numbers], rtol=1e-9)
    spread = np.sqrt(squares.mean(axis=0) - of_person.mean(axis=0) ** 2)
    np.testing.assert_allclose(found.moment_sd[c.moment_numbers], spread[c.moment_numbers], rtol=1e-9)
    counts = np.diff(made.offsets)
    clicked = [(made.label[a:b] > 0).mean() for a, b in zip(made.offsets, made.offsets[1:], strict=False)]
    assert found.positive == pytest.approx(np.mean(clicked))
    assert found.root_records == pytest.approx(np.sqrt(counts).mean())


def test_people_without_records_count_for_no_mean_of_records():
    made = made_up(people=40, records=400, seed=3)
    idle = np.concatenate([made.offsets, np.full(40, made.offsets[-1])])
    vectors = made.columns.moments.vectors(np.vstack([made.people] * 2), made.context, made.label, idle)
    found, wanted = made.columns.moments.read(vectors.sum(axis=0), 80, 0.0), made.exact_moments()
    np.testing.assert_allclose(found.moment_mean, wanted.moment_mean, rtol=1e-12)
    np.testing.assert_allclose(found.moment_sd, wanted.moment_sd, rtol=1e-9)
    assert found.positive == pytest.approx(wanted.positive)
    assert found.root_records == pytest.approx(wanted.root_records)


@pytest.mark.parametrize("seed", range(5))
def test_a_sum_that_drowns_says_what_is_usual(seed):
    made, noise = made_up(people=40, records=400, seed=3), 1e7
    length = made.columns.moments.length
    drowned = made.contributions().sum(axis=0) + np.random.default_rng(seed).normal(0.0, noise, size=length)
    found = made.columns.moments.read(drowned, 40, noise)
    c, usual = made.columns, np.full(made.columns.person, 0.1)
    usual[c.person_numbers] = 0.0
    np.testing.assert_allclose(found.person_mean, usual, atol=1e-3)
    np.testing.assert_allclose(found.person_sd, np.where(usual > 0, np.sqrt(0.1), 1.0), atol=1e-2)
    np.testing.assert_allclose(found.moment_mean[c.moment_numbers], 0.0, atol=1e-3)
    np.testing.assert_allclose(found.moment_sd[c.moment_numbers], 1.0, atol=1e-2)
    assert found.positive == pytest.approx(0.3, abs=1e-3)
    assert found.root_records == pytest.approx(4.0, abs=1e-2)


@PATIENT
@given(st.floats(-1e12, 1e12), st.floats(0.0, 1e12), st.integers(0, 2**32))
def test_whatever_a_sum_says_columns_can_be_scaled_by_it(level, noise, seed):
    columns = made_up().columns
    total = np.random.default_rng(seed).normal(level, abs(level) + 1.0, size=columns.moments.length)
    found = columns.moments.read(total, 40, noise)
    assert (np.abs(np.concatenate([found.person_mean, found.moment_mean])) <= LARGEST).all()
    assert (np.concatenate([found.person_sd, found.moment_sd]) >= np.sqrt(RAREST)).all()
    assert np.isfinite(np.concatenate([found.person_sd, found.moment_sd])).all()
    assert 0 < found.positive < 1
    assert found.root_records >= 1


# Scaling


def test_scaled_columns_have_mean_0_and_variance_1():
    made = made_up(people=4000, records=4000, seed=1)
    moments, c = made.exact_moments(), made.columns
    who = person_rows(made.people, moments)[:, 1:]
    assert np.abs(who.mean(axis=0)).max() < 0.01
    np.testing.assert_allclose(who[:, c.person_numbers].std(axis=0), 1.0, atol=0.01)
    rows = moment_rows(made.context, c, moments)
    assert rows.shape == (4000, c.context)
    assert same_bits(rows[:, :2], np.rint(made.context[:, :2].astype(float) * FINE) / FINE)


def test_records_are_scaled_alike_however_many_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_up(records=500)
    moments = made.exact_moments()
    together = moment_rows(made.context, made.columns, moments)
    monkeypatch.setattr("prirec.features.columns._BLOCK", 7)
    assert same_bits(moment_rows(made.context, made.columns, moments), together)


def test_the_most_popular_places_keep_their_order_and_private_numbers_are_cut_off():
    made = made_up(people=3, records=3)
    made.context[:, 0], made.context[:, 2:] = [2.5, 4.0, 6.0], 100.0
    moments, c = made.exact_moments(), made.columns
    rows = moment_rows(made.context, c, moments)
    assert rows[:, 0].tolist() == [2.5, 4.0, 6.0]
    furthest = (LARGEST - moments.moment_mean) / moments.moment_sd
    np.testing.assert_allclose(rows[:, c.popularity :], np.broadcast_to(furthest, (3, len(furthest))), atol=1 / FINE)


def test_words_of_places_are_scaled_by_how_common_they_are_in_the_catalogue():
    columns = Columns.of(Encoding(place=(Words(column="kind", words=("bar", "park", "rare")), Log(column="price"))))
    features = np.zeros((400, 4), dtype=np.float32)
    features[:100, 0], features[:, 1], features[0, 2], features[:, 3] = 1, 1, 1, 0.7
    words = WordScales.of(features, columns)
    rarest = np.rint(256 / np.sqrt(RAREST)) / 256
    assert words.factor.tolist() == [0, 2.0, 1.0, rarest, 0]  # none for 1 and for the price
    assert words.centre.tolist() == [0, 0.5, 1.0, np.rint(256 * rarest / 400) / 256, 0]


def test_places_are_their_words_and_rounded_numbers():
    features = np.array([[1, 0, 0.5, 1], [0, 0, 1 / 3, 0], [1, 1, -2.0, 1]], dtype=np.float32)
    encoding = Encoding(
        place=(Words(column="kind", words=("bar", "park")), Log(column="price"), Words(column="tag", words=("new",)))
    )
    rows = columns_of_places(features, Columns.of(encoding))
    assert [rows.word[a:b].tolist() for a, b in zip(rows.starts, rows.starts[1:], strict=False)] == [
        [1, 4],
        [],
        [1, 2, 4],
    ]
    assert rows.number.ravel().tolist() == [0.5, 85 / 256, -2.0]


def test_no_places_and_no_records_are_no_rows():
    assert columns_of_places(np.zeros((0, 7), dtype=np.float32), COLUMNS).starts.tolist() == [0]
    made = made_up(records=0)
    vectors = made.contributions()
    many = made.columns.person + len(made.columns.person_numbers)
    assert not vectors[:, many:].any()
    assert vectors[:, :many].any()
