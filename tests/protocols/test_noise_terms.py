"""The noise that terms call for: what they may say, what each device makes of it, and whether a ring holds it."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import HARD_FLOOR, Sums
from prirec.errors import Fault, PeerError, PolicyError, UsageError
from prirec.privacy.accountant import GRAINS
from prirec.privacy.noise import NoiseShare, Stream
from prirec.privacy.norm import Norm
from prirec.protocols.codec import decode, encode
from prirec.protocols.mask_graph import Graph, complete
from prirec.protocols.messages import VERSION, Invitation, Round, Terms
from prirec.protocols.roster import acceptable, fewest_survivors, graph_for
from prirec.protocols.terms import (
    all_or_nothing,
    double_masks,
    draw_noise,
    model_hash,
    noise_bound,
    noise_share,
    privacy_cost,
)
from prirec.sharing.fixed_point import FixedPoint
from support import messages
from support.rounds import task_of, terms_of

SEED = bytes(range(32))


def noisy(**changes: int) -> Terms:
    return terms_of("double", **({"noise": 10**6, "floor": 50, "lost": 200} | changes))


# What terms may say


@pytest.mark.parametrize("method", ["shares", "pads"])
def test_only_sums_under_double_masks_are_noisy(method: str) -> None:
    """Where nobody may be missing, whoever is missing costs the others their noise."""
    with pytest.raises(UsageError, match=messages.NOISE_WITHOUT_DOUBLE_MASKS):
        task_of(terms_of(method, noise=1, floor=50))


@pytest.mark.parametrize("floor", [0, 1, 2, HARD_FLOOR - 1])
def test_noise_is_for_sums_that_keep_the_hard_floor(floor: int) -> None:
    with pytest.raises(UsageError, match=messages.noise_needs_a_floor_of(50)):
        task_of(noisy(floor=floor))
    task_of(noisy(floor=HARD_FLOOR))
    task_of(noisy(floor=floor, noise=0))


def test_terms_carry_the_noise_that_was_asked_for_and_none_by_default() -> None:
    code = FixedPoint(summands=100, bound=2.5, fraction_bits=8)
    terms = double_masks(code, length=7, floor=50, sums=Sums(), noise=12345)
    assert terms.noise == 12345
    assert double_masks(code, length=7, floor=50, sums=Sums()).noise == 0
    assert all_or_nothing(code, "pads", length=7, people=5).noise == 0


def invitation(terms: Terms) -> Invitation:
    return Invitation(
        VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), terms, bytes(32), bytes(32), bytes(64)
    )


@pytest.mark.parametrize("noise", [0, 1, 2**52])
def test_noise_crosses_the_wire(noise: int) -> None:
    message = invitation(noisy(noise=noise))
    assert decode(encode(message)) == message


@pytest.mark.parametrize("noise", [-1, 2**52 + 1, 2**63, 0.5, None, "1"])
def test_noise_that_no_sampler_has_is_refused_at_the_door(noise: object) -> None:
    with pytest.raises(PeerError) as told:
        decode(encode(invitation(msgspec.structs.replace(noisy(), noise=noise))))
    assert told.value.fault is Fault.DECODE


def test_terms_without_a_statement_on_noise_are_refused() -> None:
    """A field with a default that is left out would otherwise be a second way to write the same terms."""
    whole = encode(invitation(noisy(noise=0)))
    terms = encode(noisy(noise=0))
    assert terms in whole
    length = terms[0]
    shorter = bytes([length - 1]) + terms[1:-1]
    with pytest.raises(PeerError):
        decode(whole.replace(terms, shorter))


# A device's share


@given(
    size=st.integers(50, 5000),
    floor=st.integers(50, 300),
    lost=st.integers(0, 499),
    corrupt=st.integers(0, 333),
    noise=st.integers(1, 2**52),
)
def test_the_honest_among_the_fewest_survivors_bring_all_of_it(
    size: int, floor: int, lost: int, corrupt: int, noise: int
) -> None:
    terms = noisy(floor=floor, lost=lost, corrupt=corrupt, noise=noise)
    if size < floor or corrupt + 2 * lost >= 1000:
        return
    share, fewest = noise_share(terms, size), fewest_survivors(terms, size)
    assert share.survivors == fewest
    assert share.colluders == size * corrupt // 1000
    assert share.variance * (fewest - share.colluders) >= noise + Fraction(3, 2)
    assert share.variance * (fewest - share.colluders - 1) < noise * (1 + Fraction(1, 2**17)) + 10


def test_the_share_follows_the_size_of_the_roster() -> None:
    people = {50: (50, 2), 60: (50, 3), 62: (50, 3), 100: (80, 5), 1000: (800, 50)}  # fewest survivors, colluders
    for size, (survivors, colluders) in people.items():
        assert noise_share(noisy(), size) == NoiseShare(Fraction(10**6), survivors, colluders)


def test_a_share_is_drawn_from_its_seed_alone_as_long_as_the_vectors_are() -> None:
    terms = noisy(length=7)
    expected = noise_share(terms, 60).draw(Stream(SEED), 7)
    assert draw_noise(terms, 60, seed=SEED).view(np.int64).tolist() == expected.tolist()
    assert draw_noise(terms, 60, seed=SEED).dtype == np.uint64
    assert draw_noise(terms, 60, seed=SEED[::-1]).tolist() != draw_noise(terms, 60, seed=SEED).tolist()
    assert draw_noise(terms, 70, seed=SEED).tolist() != draw_noise(terms, 60, seed=SEED).tolist()


def test_noise_in_the_narrow_ring_is_the_same_number() -> None:
    wide, narrow = (draw_noise(noisy(ring_bits=bits, length=500), 60, seed=SEED) for bits in (64, 32))
    assert narrow.dtype == np.uint32
    assert narrow.view(np.int32).tolist() == wide.view(np.int64).tolist()
    assert (wide.view(np.int64) < 0).any()


# The ring


@pytest.mark.parametrize("bits", [32, 64])
def test_devices_leave_room_for_the_noise(bits: int) -> None:
    terms = noisy(ring_bits=bits)
    spare = noise_bound(terms, 60)
    largest = (2 ** (bits - 1) - 1 - spare) // 60
    graph = graph_for(terms, 60)
    fits, over = (msgspec.structs.replace(terms, bound=bound) for bound in (largest, largest + 1))
    assert acceptable(graph, fits)
    assert not acceptable(graph, over)
    assert acceptable(graph, msgspec.structs.replace(over, noise=0))  # it was the noise
    assert spare > 60 * 2**4


def test_room_is_for_everyones_noise_and_grows_with_the_vectors_and_the_roster() -> None:
    share = noise_share(noisy(), 60)
    assert noise_bound(noisy(), 60) == share.tail(survivors=60, count=3)
    assert noise_bound(noisy(length=10**6), 60) > noise_bound(noisy(), 60)
    assert noise_bound(noisy(noise=4 * 10**6), 60) > 1.9 * noise_bound(noisy(), 60)
    assert noise_bound(noisy(noise=0), 60) == 0


@pytest.mark.parametrize("size", [2, 3, 49])
def test_a_roster_below_the_floor_is_refused_and_not_an_error(size: int) -> None:
    assert not acceptable(complete(size), noisy())
    assert acceptable(complete(50), noisy())


@pytest.mark.parametrize(
    "graph", [Graph(2**24 + 1, 2**24, 2**24), Graph(0, 0, 0), Graph(60, 2, 2), Graph(2**31 - 1, 400, 250)]
)
def test_impossible_rosters_are_refused_with_and_without_noise(graph: Graph) -> None:
    assert not acceptable(graph, noisy())


# The model that contributions are measured from


def test_the_hash_differs_however_bytes_move_between_V_and_centre() -> None:
    V, centre = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    moved = centre.copy()
    moved[1] = np.nextafter(1.0, 2.0)
    together = np.concatenate([V.ravel(), centre])
    different = [
        (V,), (centre,), (V, centre), (centre, V), (V, moved), (V, centre, centre), (together,), (V.ravel(), centre),
        (V, centre[:2]), (V, centre[None]), (V, -np.zeros(3)), (V, np.zeros(3)), (),
    ]  # fmt: skip
    assert len({model_hash(*models) for models in different}) == len(different)
    assert model_hash(V, centre) == model_hash(V.copy(), centre.copy())


def test_a_price_follows_from_the_signed_noise_and_is_rounded_up():
    """A vector of 4 units under noise of variance 32: half a unit of μ², and a grain more where that is not whole."""
    code = FixedPoint(summands=100, bound=1.0, fraction_bits=2)
    agreed = {"length": 3, "floor": HARD_FLOOR, "sums": Sums()}
    assert privacy_cost(double_masks(code, noise=32, **agreed), norm=Norm(1.0, 2)).grains == GRAINS // 2
    assert privacy_cost(double_masks(code, noise=33, **agreed), norm=Norm(1.0, 2)).grains == 16 * GRAINS // 33 + 1
    with pytest.raises(PolicyError, match=messages.SUM_WITHOUT_NOISE_HAS_NO_PRICE):
        privacy_cost(double_masks(code, **agreed), norm=Norm(1.0, 2))
