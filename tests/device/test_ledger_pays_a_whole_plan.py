"""From settings to the last entry in a person's ledger: a plan's releases, at the prices that their signed terms have,
are what the budget covers, and nothing beside them is."""

from collections import Counter
from fractions import Fraction
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import PRIVATE, Settings
from prirec.device.ledger import LedgerStore, Price, pay
from prirec.device.store import Store
from prirec.errors import PolicyError, StateError
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import GRAINS, Spent, total
from prirec.privacy.ledger import Budget, Charge, Verdict
from prirec.privacy.norm import Norm
from prirec.privacy.plan import Kind, Plan, Release, plan_for
from prirec.protocols.messages import Round, Terms
from prirec.protocols.party import Persist, Stage
from prirec.protocols.terms import double_masks, noise_share, privacy_cost
from prirec.sharing.fixed_point import FixedPoint
from support import messages
from support.cities import change
from support.hypothesis_settings import FEW
from support.journals import resent

PEOPLE, PLACES, SIZE = 5000, 2000, ModelSize.assumed(20)
TODAY = 20_000
WITH_FIGURES = change(PRIVATE, privacy={"popularity": 0.6, "moments": 0.1, "interaction": 0.2, "quality": 0.1})
WORDS = {
    Kind.POPULARITY: "how popular places are",
    Kind.MOMENTS: "means and spreads of private columns",
    Kind.INTERACTION: "which features go together",
    Kind.QUALITY: "how well it works",
}


@cache
def plan_of(settings: Settings) -> Plan:
    return plan_for(settings, people=PEOPLE, pois=PLACES, size=SIZE)


def terms_for(release: Release, settings: Settings, *, noise: int | None = None) -> Terms:
    norm, crowd = release.norm, release.of.crowd
    return double_masks(
        FixedPoint(summands=crowd.size, bound=norm.sensitivity, fraction_bits=norm.fraction_bits),
        length=release.of.length,
        floor=settings.floor,
        sums=settings.sums,
        noise=release.wanted_whole if noise is None else noise,
    )


def price_of(release: Release, settings: Settings) -> Price:
    return Price(WORDS[release.of.kind], privacy_cost(terms_for(release, settings), norm=release.norm))


def round_of(kind: Kind, number: int, *, attempt: int = 0, group: int = 0) -> Round:
    return Round(bytes(16), str(kind), number, group, attempt)


def take_part(paid: LedgerStore, of: Round, price: Price, *, vector: bytes = b"vector") -> None:
    digest = bytes([of.number]) * 32
    paid.write(Persist(of, Stage.ENTERED, digest), day=TODAY)
    paid.write(Persist(of, Stage.MASKED, digest, vector), price=price, day=TODAY)


def take_part_in_everything(paid: LedgerStore, settings: Settings) -> None:
    for release in plan_of(settings).releases:
        for number in range(release.of.releases):
            take_part(paid, round_of(release.of.kind, number), price_of(release, settings))


@pytest.fixture
def paid(store: Store) -> LedgerStore:
    return LedgerStore(store, Budget())


def counted(paid: LedgerStore) -> Counter[str]:
    return Counter(one.charge.kind for one in paid.ledger().entries)


@pytest.mark.parametrize(
    ("settings", "releases"), [(PRIVATE, (1, 1, 20)), (WITH_FIGURES, (1, 1, 20, 1))], ids=["private", "with figures"]
)
def test_a_whole_plan_is_covered_and_no_release_more(paid: LedgerStore, settings: Settings, releases) -> None:
    take_part_in_everything(paid, settings)
    assert counted(paid) == Counter(dict(zip(map(str, Kind), releases, strict=False)))
    told = paid.account(day=TODAY)
    assert 0.999 <= told.lifetime.epsilon <= 1
    assert told.budget.delta == 1e-6
    assert sorted((item.what, item.releases) for item in told.items) == sorted(
        (WORDS[Kind(kind)], many) for kind, many in counted(paid).items()
    )
    before = paid.ledger()
    for release in plan_of(settings).releases:
        price = price_of(release, settings)
        assert paid.how_many_more(price.cost, day=TODAY) == 0
        with pytest.raises(PolicyError, match=messages.budget_exhausted(price.what)):
            take_part(paid, round_of(release.of.kind, release.of.releases), price)
    assert paid.ledger() == before


@pytest.mark.parametrize("epsilon", [0.25, 4.0])
def test_a_plan_for_another_budget_is_covered_too(store: Store, epsilon: float) -> None:
    settings = change(PRIVATE, privacy={"epsilon_per_user": epsilon})
    paid = LedgerStore(store, Budget(epsilon))
    take_part_in_everything(paid, settings)
    assert 0.999 * epsilon <= paid.account(day=TODAY).lifetime.epsilon <= epsilon


def test_the_ledger_of_a_smaller_budget_stops_a_plan_on_the_way(store: Store) -> None:
    paid = LedgerStore(store, Budget(0.9))
    with pytest.raises(PolicyError):
        take_part_in_everything(paid, PRIVATE)
    assert 0.8 < paid.account(day=TODAY).lifetime.epsilon <= 0.9


def test_resending_costs_nothing_even_with_nothing_left_and_after_a_crash(path: Path, paid: LedgerStore) -> None:
    take_part_in_everything(paid, PRIVATE)
    before = paid.ledger()
    learning = plan_of(PRIVATE).release(Kind.INTERACTION)
    last, price = round_of(Kind.INTERACTION, learning.of.releases - 1), price_of(learning, PRIVATE)
    with Store.open(path) as store:
        again = LedgerStore(store, Budget())
        assert resent(store, last) == b"vector"
        for _ in range(3):
            again.write(Persist(last, Stage.MASKED, bytes([last.number]) * 32, b"vector"), price=price, day=TODAY)
        assert again.ledger() == before


def test_a_repeated_attempt_costs_again_and_so_does_another_number(paid: LedgerStore) -> None:
    release = plan_of(PRIVATE).release(Kind.INTERACTION)
    price = price_of(release, PRIVATE)
    take_part(paid, round_of(Kind.INTERACTION, 0), price)
    one = paid.ledger().spent(Budget())
    again = Charge(bytes(16), str(Kind.INTERACTION), 0, 1, price.what, price.cost)
    with paid._store.transaction() as rows:
        assert pay(rows, again, budget=Budget(), day=TODAY) is Verdict.CHARGE
    assert paid.ledger().spent(Budget()) == one + one
    take_part(paid, round_of(Kind.INTERACTION, 1), price)
    assert paid.ledger().spent(Budget()) == one + one + one
    assert paid.how_many_more(price.cost, day=TODAY) == plan_of(PRIVATE).spent.grains // price.cost.grains - 3


def test_what_was_paid_for_once_is_not_masked_for_another_group_or_attempt(paid: LedgerStore) -> None:
    """The price is known by its number: a second vector at the same number would be free. The journal refuses it."""
    release = plan_of(PRIVATE).release(Kind.INTERACTION)
    price = price_of(release, PRIVATE)
    take_part(paid, round_of(Kind.INTERACTION, 3, group=7), price)
    before = paid.ledger()
    for other in (round_of(Kind.INTERACTION, 3, group=8), round_of(Kind.INTERACTION, 3, group=7, attempt=1)):
        with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
            take_part(paid, other, price, vector=b"another")
        with pytest.raises(StateError, match=messages.ROUND_NEVER_ENTERED):
            paid.write(Persist(other, Stage.MASKED, bytes(32), b"another"), price=price, day=TODAY)
    assert paid.ledger() == before
    assert resent(paid._store, round_of(Kind.INTERACTION, 3, group=7)) == b"vector"


def test_terms_with_less_noise_cost_more_and_are_refused_at_the_price_of_the_plan(paid: LedgerStore) -> None:
    """A recommender that calls for less noise finds devices whose budget runs out sooner, or that know the round."""
    release = plan_of(PRIVATE).release(Kind.POPULARITY)
    bare = terms_for(release, PRIVATE, noise=release.wanted_whole // 4)
    dear = Price("how popular places are", privacy_cost(bare, norm=release.norm))
    assert dear.cost.grains > 3.9 * release.each.grains
    with pytest.raises(PolicyError):
        take_part(paid, round_of(Kind.POPULARITY, 0), dear)
    paid.write(
        Persist(round_of(Kind.POPULARITY, 0), Stage.MASKED, bytes(32), b""), price=price_of(release, PRIVATE), day=1
    )
    with pytest.raises(StateError, match=messages.CHARGED_AT_ANOTHER_PRICE):
        paid.write(Persist(round_of(Kind.POPULARITY, 0), Stage.MASKED, bytes(32), b""), price=dear, day=1)


# The price of terms


@pytest.mark.parametrize("settings", [PRIVATE, WITH_FIGURES], ids=["private", "with figures"])
def test_the_prices_of_a_plan_are_the_plan_to_within_a_thousandth_and_never_over(settings: Settings) -> None:
    found = plan_of(settings)
    prices = [(price_of(release, settings).cost, release) for release in found.releases]
    assert all(price.grains <= release.each.grains for price, release in prices)
    whole = total(Spent(price.grains * release.of.releases) for price, release in prices)
    assert 0.999 * found.spent.grains < whole.grains <= found.spent.grains


def test_terms_without_noise_have_no_price() -> None:
    for release in plan_of(PRIVATE).releases:
        with pytest.raises(PolicyError, match=messages.SUM_WITHOUT_NOISE_HAS_NO_PRICE):
            privacy_cost(terms_for(release, PRIVATE, noise=0), norm=release.norm)


@FEW
@given(
    noise=st.integers(1, 2**52),
    size=st.integers(50, 100_000),
    lost=st.integers(0, 400),
    corrupt=st.integers(0, 300),
    sensitivity=st.floats(0.01, 10),
    bits=st.integers(8, 20),
)
def test_the_charge_is_at_least_what_the_noise_costs(noise, size, lost, corrupt, sensitivity, bits) -> None:
    norm = Norm(sensitivity, bits)
    terms = Terms("double", 7, 64, bits, 2**40, 50, corrupt, lost, noise)
    shares = noise_share(terms, size)
    price = privacy_cost(terms, norm=norm)
    assert price.grains >= norm.units**2 * GRAINS / shares.hides()
    one_fewer = shares.variance * (shares.survivors - shares.colluders - 1) - Fraction(3, 2)
    if noise > 100 * shares.survivors:  # then shares are rounded up by little, and one missing is too little
        assert price.grains < norm.units**2 * GRAINS / one_fewer + 1


def test_a_roster_of_any_size_that_may_be_convened_hides_what_is_charged_for() -> None:
    for release in plan_of(PRIVATE).releases:
        terms = terms_for(release, PRIVATE)
        for size in (100, 101, 117, 999, 1000, 1999, PEOPLE):
            hidden = noise_share(terms, size).hides()
            assert release.norm.units**2 * GRAINS / hidden <= privacy_cost(terms, norm=release.norm).grains
        with pytest.raises(PolicyError, match=messages.too_few_devices(99, floor=100)):
            noise_share(terms, 99)
        assert noise_share(msgspec.structs.replace(terms, corrupt=0, lost=0), 1000).hides() >= terms.noise
