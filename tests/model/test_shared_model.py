"""The sparse kernels of the shared model are exact, and what they are said to be: held to a dense twin in fractions."""

from fractions import Fraction
from math import exp, log1p, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import PRIVATE, ROUNDS
from prirec.features.columns import LARGEST, product_columns
from prirec.model.shared_model import (
    FINE,
    TYPICAL,
    ContributionScale,
    OwnRecords,
    SharedModel,
    add_contributions,
    coefficients,
    fill,
    gradient,
    length_of,
    rounded_base,
    row_for,
    score_places,
    typical_length,
    write,
)
from prirec.rounds.definition import RoundRules
from support.cities import same_bits
from support.hypothesis_settings import FEW, PATIENT
from support.shared_data import EVERY_KIND, MadeUp, encodings, made_up

SEEDS = st.integers(0, 2**32)


# The dense twin, in exact arithmetic


def nearest(value: Fraction, fine: float) -> Fraction:
    return round(value * int(fine)) / Fraction(int(fine))


def b_of(made: MadeUp, own: OwnRecords, words, record: int) -> list[Fraction]:
    """b of one record: words from their mean, numbers, popularity and the moment, then products."""
    columns, layout, place = made.columns, made.columns.layout, made.places[own.place[record]]
    b = [Fraction(1)] + [-Fraction(words.centre[column]) for column in range(1, layout.core)]
    for word in columns.place_words:
        if place[word] > 0:
            b[word + 1] += Fraction(words.factor[word + 1])
    numbers = [nearest(Fraction(float(place[at - 1])), 256) for at in layout.dense[: layout.place_numbers]]
    for column, value in zip(layout.dense, [*numbers, *map(Fraction, own.context[record])], strict=True):
        b[column] = value
    clock, most = set(layout.dense[layout.clock].tolist()), Fraction(LARGEST)
    for first, second in product_columns(layout):
        if first in clock:
            here = Fraction(words.factor[second]) if place[second - 1] > 0 else Fraction(0)
            b.append(b[first] * here)
        else:
            u, v = (min(max(b[at], -most), most) for at in (first, second))
            b.append((u * v - 1) / 2 if first == second else u * v)
    return b


def own_of(a: np.ndarray, model: SharedModel) -> list[Fraction]:
    """Bᵀ a, rounded."""
    total = [Fraction(value) for value in model.everyone]
    for k in range(1, len(a)):
        for at, j in enumerate(model.layout.crossed):
            total[j] += Fraction(a[k]) * Fraction(model.crossing[k - 1, at])
    return [nearest(value, FINE) for value in total]


def dense_gradient(made: MadeUp, own: OwnRecords, model: SharedModel, i: int) -> tuple[list[Fraction], float]:
    mine, lost = own_of(own.who[i], model), 0.0
    g = [Fraction(0)] * model.layout.width
    for r in range(own.offsets[i], own.offsets[i + 1]):
        b, y = b_of(made, own, model.words, r), 1.0 if own.label[r] > 0 else -1.0
        score = float(Fraction(model.base) + sum((w * x for w, x in zip(mine, b, strict=True)), Fraction(0)))
        lost += max(0.0, -y * score) + log1p(exp(-abs(y * score)))
        residual = nearest(Fraction(-y / (1.0 + exp(y * score))), FINE)
        g = [had + residual * x for had, x in zip(g, b, strict=True)]
    return g, lost


def begun(encoding=EVERY_KIND, **how) -> tuple[MadeUp, OwnRecords, SharedModel]:
    made = made_up(encoding, **how)
    moments = made.exact_moments()
    return made, made.own(moments), made.model(moments, seed=how.get("seed", 0))


def gradient_of(made: MadeUp, own: OwnRecords, model: SharedModel, i: int) -> tuple[np.ndarray, np.ndarray, float]:
    """own = Bᵀ a, g and the loss, by the kernels; over whatever stood there before."""
    mine, g = np.full(model.layout.width, np.nan), np.full(model.layout.width, np.nan)
    coefficients(own.who[i], model, np.empty(len(model.layout.crossed)), mine)
    return mine, g, gradient(own, i, made.rows, model, mine, row_for(model.layout), g)


# Exactness


@FEW
@given(encodings(), SEEDS, st.sampled_from([0.3, 1.0, 5.0]))
def test_sparse_kernels_have_the_bits_of_exact_arithmetic(encoding, seed, spread):
    """Nothing is ever rounded but where it is said to be, so the order of sums cannot matter."""
    made, own, model = begun(encoding, seed=seed, spread=spread, people=3, records=8)
    b = np.empty(model.layout.width)
    for i in range(3):
        mine, g, lost = gradient_of(made, own, model, i)
        wanted, wanted_loss = dense_gradient(made, own, model, i)
        assert [Fraction(value) for value in mine] == own_of(own.who[i], model)
        assert [Fraction(value) for value in g] == wanted
        assert lost == pytest.approx(wanted_loss, rel=1e-12)
        mine_of = slice(own.offsets[i], own.offsets[i + 1])
        scores = np.empty(mine_of.stop - mine_of.start)
        score_places(own.place[mine_of], own.context[mine_of], made.rows, model, mine, scores)
        for at, r in enumerate(range(mine_of.start, mine_of.stop)):
            fill(own.place[r], own.context[r], made.rows, model, b)
            dense = b_of(made, own, model.words, r)
            assert [Fraction(value) for value in b] == dense
            products = (Fraction(w) * x for w, x in zip(mine, dense, strict=True))
            assert Fraction(scores[at]) == Fraction(model.base) + sum(products, Fraction(0))


@FEW
@given(SEEDS, st.randoms(use_true_random=False))
def test_a_gradient_has_the_same_bits_in_any_order_of_records(seed, random):
    made, own, model = begun(people=1, records=60, seed=seed)
    order = list(range(60))
    random.shuffle(order)
    other = own._replace(place=own.place[order], context=own.context[order], label=own.label[order])
    assert same_bits(gradient_of(made, own, model, 0)[1], gradient_of(made, other, model, 0)[1])


def test_a_gradient_is_the_derivative_of_the_loss():
    made, own, model = begun(people=4, records=20, seed=5)
    _, g, _ = gradient_of(made, own, model, 2)
    a, h = own.who[2], 1e-4
    b = np.array([[float(x) for x in b_of(made, own, model.words, r)] for r in range(*own.offsets[2:4])])
    y = np.where(own.label[slice(*own.offsets[2:4])] > 0, 1.0, -1.0)

    B_here = made.B_of(model)

    def lost(B: np.ndarray) -> float:
        return float(np.log1p(np.exp(-y * (model.base + b @ (a @ B)))).sum())

    assert len(b) > 2
    rng = np.random.default_rng(0)
    for k, j in [
        (0, 0),
        (0, model.layout.width - 1),
        *zip(rng.integers(len(a), size=30), rng.choice(model.layout.crossed, 30), strict=True),
    ]:
        step = np.zeros_like(B_here)
        step[k, j] = h
        slope = (lost(B_here + step) - lost(B_here - step)) / (2 * h)
        assert a[k] * g[j] == pytest.approx(slope, abs=1e-3)  # coefficients and residuals are rounded to 2^-16


def test_any_label_above_0_is_positive_and_all_others_are_negative():
    made, own, model = begun(people=1, records=20)
    assert set(own.label) == {-1, 1}
    others = own._replace(label=np.where(own.label > 0, 7, 0).astype(np.int8))
    assert same_bits(gradient_of(made, own, model, 0)[1], gradient_of(made, others, model, 0)[1])
    flipped = own._replace(label=-own.label)
    assert not same_bits(gradient_of(made, own, model, 0)[1], gradient_of(made, flipped, model, 0)[1])


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.98])
def test_the_base_is_the_log_odds_of_the_share_of_positive_records(share):
    assert 1 / (1 + exp(-rounded_base(share))) == pytest.approx(share, abs=1e-4)
    assert rounded_base(share) * FINE == round(rounded_base(share) * FINE)


# Contributions


def rules_of(made: MadeUp, *, private: bool = True, people: int = 500) -> RoundRules:
    return RoundRules.sized(
        PRIVATE if private else ROUNDS, people=people, places=len(made.places), columns=made.columns
    )


def of_person(own: OwnRecords, i: int) -> OwnRecords:
    mine = slice(own.offsets[i], own.offsets[i + 1])
    records = np.array([0, mine.stop - mine.start])
    return OwnRecords(own.who[i : i + 1], records, own.place[mine], own.context[mine], own.label[mine])


@PATIENT
@given(encodings(), SEEDS, st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 60))
def test_a_contribution_is_never_longer_than_its_norm_in_whole_numbers(encoding, seed, spread, records):
    made, own, model = begun(encoding, people=3, seed=seed, spread=spread, records=records)
    rules = rules_of(made)
    code = rules.codes.interaction
    for i in range(3):
        ring, lost = rules.contribution(of_person(own, i), made.rows, model)
        whole = [int(one) for one in code.ring.signed(ring)]
        assert len(whole) == made.columns.entries
        assert sum(one**2 for one in whole) <= code.most <= (2**code.ring.fraction_bits) ** 2
        assert max(map(abs, whole), default=0) <= code.ring.bound * code.ring.scale
        assert lost >= 0


def written(who, g, crossed, count: int, scale: ContributionScale) -> list[int]:
    whole = np.empty(len(g) + (len(who) - 1) * len(crossed), dtype=np.int64)
    write(who, g, crossed, count, scale, np.empty(len(crossed)), whole)
    return whole.tolist()


def test_whole_numbers_that_rounding_made_too_long_are_moved_towards_zero():
    """Of length 2.5 in the ring, which rounding makes √14 long."""
    who, g, crossed = np.array([1.0, 0.5]), np.array([0.75, -0.75, 1.0]), np.array([0, 2], dtype=np.int32)
    one = 2.0 * length_of(who, g, g[crossed])
    assert written(who, g, crossed, 0, ContributionScale(one, 0, TYPICAL)) == [2, -2, 2, 1, 1]
    assert written(who, g, crossed, 0, ContributionScale(one, 14, TYPICAL)) == [2, -2, 2, 1, 1]
    assert written(who, g, crossed, 0, ContributionScale(one, 13, TYPICAL)) == [1, -1, 1, 0, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("of_person", [True, False])
def test_what_has_no_length_adds_nothing(value, of_person):
    """Else its bits would be taken for whole numbers of any size, which no noise hides."""
    who, g, crossed = np.array([1.0, 0.5]), np.array([0.25, -0.5, 1.0]), np.array([0, 2], dtype=np.int32)
    (who if of_person else g)[1] = value
    whole = np.full(5, 99)
    write(who, g, crossed, 4, ContributionScale(2.0**12, 2**24, TYPICAL), np.empty(2), whole)
    assert not whole.any()


def test_a_contribution_is_the_gradient_of_row_0_and_of_the_crossed_columns_of_the_others():
    made, own, model = begun(people=2, records=20, seed=1)
    rules = rules_of(made, private=False)
    ring, _ = rules.contribution(of_person(own, 0), made.rows, model)
    _, g, _ = gradient_of(made, own, model, 0)
    found = np.zeros(made.columns.groups.shape)
    found[made.columns.groups >= 0] = rules.codes.interaction.ring.decode(ring)
    expected = np.where(made.columns.groups >= 0, np.outer(own.who[0], g), 0.0)
    count = own.offsets[1]
    expected /= max(np.linalg.norm(expected), TYPICAL * sqrt(count * made.columns.entries))
    np.testing.assert_allclose(found, expected, atol=2.0**-24)


def test_a_gradient_is_divided_by_what_does_not_know_labels_until_it_is_longer():
    who, crossed = np.array([1.0, 2.0]), np.array([0], dtype=np.int32)
    short, long, scale = np.array([0.1, 0.1]), np.array([3.0, 4.0]), ContributionScale(1e6, 0, TYPICAL)
    assert length_of(who, long, long[crossed]) == sqrt(9 + 16 + 4 * 9)
    assert typical_length(4, 3, TYPICAL) == pytest.approx(TYPICAL * sqrt(12))
    usual = 1e5 / (TYPICAL * sqrt(12))
    assert written(who, short, crossed, 4, scale) == [round(usual), round(usual), round(2 * usual)]
    assert written(who, -short, crossed, 4, scale) == [-round(usual), -round(usual), -round(2 * usual)]
    assert np.linalg.norm(written(who, long, crossed, 4, scale)) == pytest.approx(1e6, rel=1e-5)
    assert written(who, np.zeros(2), crossed, 0, scale) == [0, 0, 0]


def test_whoever_has_no_records_adds_nothing():
    made, own, model = begun(people=2, records=0)
    ring, lost = rules_of(made).contribution(of_person(own, 0), made.rows, model)
    assert lost == 0.0
    assert not ring.any()


@FEW
@given(SEEDS, st.booleans())
def test_the_sum_over_many_is_the_sum_of_what_devices_write_of_those_who_are_counted(seed, private):
    made, own, model = begun(people=7, records=30, seed=seed)
    rules, rng = rules_of(made, private=private), np.random.default_rng(seed)
    present = rng.random(7) < 0.7
    counted = present & (rng.random(7) < 0.7)
    devices = [rules.contribution(of_person(own, i), made.rows, model) for i in range(7)]
    total, losses = np.zeros(made.columns.entries, dtype=np.int64), np.zeros(7)
    for block in ((0, 3), (3, 3), (3, 7)):
        add_contributions(block, own, made.rows, model, counted, present, rules.scale, total, losses)
    wanted = sum((devices[i][0].view(np.int64) for i in np.flatnonzero(counted)), np.zeros_like(total))
    assert total.tolist() == wanted.tolist()
    assert losses.tolist() == [lost if there else 0.0 for (_, lost), there in zip(devices, present, strict=True)]
