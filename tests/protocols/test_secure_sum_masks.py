"""Masks: bound to everything that both ends must believe, and hiding everything but the sum, exactly."""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import Fault, PeerError, UsageError
from prirec.protocols import secure_sum
from prirec.protocols.codec import Statement, check_vector, decode_content, digest, read_vector, ring_dtype, ring_zeros
from prirec.protocols.messages import Masked, Vector
from prirec.protocols.roster import RosterView
from prirec.protocols.secure_sum import add_pads
from support import messages
from support.hypothesis_settings import PATIENT
from support.ring_views import INPUTS, UNIT, all_choices, distribution, in_ring, tell_apart
from support.rounds import OTHER_MODEL, altered, gather, held_at, terms_of


def pair() -> tuple[bytes, RosterView, dict[str, bytes]]:
    """What the two ends of one edge agree on, in a real round."""
    gathering = gather(4, terms_of(length=4))
    held_at(gathering, Masked)
    a, b = gathering.members[:2]
    low, high = sorted((a.name, b.name))
    agreed = a._mask_key.agree(b._mask_key.public)
    return agreed, a._view, {"participants": a._participants, "low": low, "high": high}


def with_statement(view: RosterView, statement: Statement) -> RosterView:
    return replace(view, statement=statement, digest=digest(statement))


def in_invited(**changes: Any) -> Callable[[Statement], Statement]:
    return lambda s: altered(s, invited=altered(s.invited, **changes))


def in_round(**changes: Any) -> Callable[[Statement], Statement]:
    return lambda s: in_invited(round=altered(s.invited.round, **changes))(s)


def in_terms(**changes: Any) -> Callable[[Statement], Statement]:
    return lambda s: in_invited(terms=altered(s.invited.terms, **changes))(s)


def in_graph(**changes: Any) -> Callable[[Statement], Statement]:
    return lambda s: altered(s, **{name: change(getattr(s, name)) for name, change in changes.items()})


def more(value: int) -> int:
    return value + 1


BOUND = {
    "deployment": in_round(deployment=b"another one here"),
    "kind": in_round(kind="interaction"),
    "number": in_round(number=2),
    "group": in_round(group=1),
    "attempt": in_round(attempt=1),
    "collector": in_invited(collector=bytes(32)),
    "model": in_invited(model=OTHER_MODEL),
    "collector's box key": in_invited(box_key=bytes(32)),
    "method": in_terms(method="pads"),
    "length": in_terms(length=5),
    "fraction bits": in_terms(fraction_bits=9),
    "bound": in_terms(bound=2**21),
    "floor": in_terms(floor=3),
    "corrupt": in_terms(corrupt=51),
    "lost": in_terms(lost=399),
    "noise": in_terms(noise=1),
    "root": in_graph(root=lambda root: bytes(32)),
    "size": in_graph(size=more),
    "degree": in_graph(degree=more),
    "threshold": in_graph(threshold=more),
}
PADS: dict[str, Callable[[bytes, RosterView, dict[str, bytes]], Any]] = {
    "pairwise": lambda secret, view, bound: secure_sum.pairwise_pad(secret, view, **bound),
    "own": lambda secret, view, bound: secure_sum.own_pad(secret, view, name=bound["low"]),
    "commitment": lambda secret, view, bound: np.frombuffer(
        secure_sum.commitment(secret, view, name=bound["low"]), dtype=np.uint64
    ),
}


def shared_words(a: np.ndarray, b: np.ndarray) -> int:
    return len(set(a.tolist()) & set(b.tolist()))


@pytest.mark.parametrize("kind", PADS)
def test_equal_statements_give_the_same_pad(kind: str) -> None:
    assert PADS[kind](*pair()).tolist() == PADS[kind](*pair()).tolist()


@pytest.mark.parametrize("field", BOUND)
@pytest.mark.parametrize("kind", PADS)
def test_another_statement_gives_another_pad(kind: str, field: str) -> None:
    secret, view, bound = pair()
    other = with_statement(view, BOUND[field](view.statement))
    assert other.statement != view.statement
    assert not shared_words(PADS[kind](secret, view, bound), PADS[kind](secret, other, bound))


def test_every_field_of_the_statement_is_tried() -> None:
    """So that a field which is added later does not go untested. The version and the ring's width are apart."""
    _, view, _ = pair()
    statement = view.statement

    def leaves(part: Any, path: str = "") -> set[str]:
        if not hasattr(part, "__struct_fields__"):
            return {path}
        return set().union(*(leaves(getattr(part, name), f"{path}.{name}") for name in part.__struct_fields__))

    def at(part: Any, path: str) -> Any:
        for name in path.split(".")[1:]:
            part = getattr(part, name)
        return part

    changed = {
        path
        for path in leaves(statement)
        for change in BOUND.values()
        if at(change(statement), path) != at(statement, path)
    }
    assert leaves(statement) - changed == {".invited.version", ".invited.terms.ring_bits"}


def test_another_ring_gives_another_pad() -> None:
    secret, view, bound = pair()
    other = with_statement(view, in_terms(ring_bits=32)(view.statement))
    wide, narrow = secure_sum.pairwise_pad(secret, view, **bound), secure_sum.pairwise_pad(secret, other, **bound)
    assert narrow.dtype == np.uint32
    assert wide.tobytes()[:16] != narrow.tobytes()


def test_another_list_of_participants_gives_another_pad() -> None:
    secret, view, bound = pair()
    pad = PADS["pairwise"]
    assert not shared_words(pad(secret, view, bound), pad(secret, view, bound | {"participants": b"\7"}))


@pytest.mark.parametrize(("kind", "name"), [("pairwise", "low"), ("pairwise", "high"), ("own", "low")])
def test_another_name_gives_another_pad(kind: str, name: str) -> None:
    secret, view, bound = pair()
    assert not shared_words(PADS[kind](secret, view, bound), PADS[kind](secret, view, bound | {name: bytes(32)}))


def test_another_secret_gives_another_pad_and_no_two_uses_share_a_word() -> None:
    secret, view, bound = pair()
    found = [pad(one, view, bound) for pad in PADS.values() for one in (secret, bytes(32))]
    assert all(not shared_words(a, b) for a, b in combinations(found, 2))


def test_both_ends_of_an_edge_lay_on_the_same_pad_with_opposite_signs() -> None:
    gathering = gather(2, terms_of("pads"), values=np.zeros((2, 3), dtype=np.uint64))
    sent = [
        decode_content(Vector, gathering.collector.unseal(message.sender, Masked, message.sealed))
        for message in held_at(gathering, Masked)
    ]
    first, second = (read_vector(one.values, gathering.task.terms) for one in sent)
    assert first.all()
    assert not (first + second).any()


# What the collector sees, in all cases


def masked_by_three(values: tuple[int, ...], pads: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """y_u of three people under all choices of three edge pads and three own pads, and the own pads."""
    edges, own = dict(zip([(0, 1), (0, 2), (1, 2)], pads[:3], strict=True)), pads[3:]
    vectors = []
    for at, value in enumerate(values):
        added = [edges[pair] for pair in edges if pair[0] == at] + [own[at]]
        taken = [edges[pair] for pair in edges if pair[1] == at]
        vectors.append(add_pads(np.full(pads.shape[1], in_ring(value)), added=added, taken=taken))
    return vectors, own


def views(see: Callable[[list[np.ndarray], np.ndarray], list[np.ndarray]], pads: np.ndarray) -> dict[Any, np.ndarray]:
    return {values: distribution(see(*masked_by_three(values, pads))) for values in INPUTS}


def total(values: tuple[int, ...]) -> int:
    return sum(values) % 4


def test_the_opened_round_shows_the_sum_and_nothing_else() -> None:
    """All y_u and the own pads of all survivors: the total variation is 0 for equal sums and 1 for others."""
    found = views(lambda vectors, own: [*vectors, *own], all_choices(6))
    assert tell_apart(found, total) == (False, True)


def test_a_round_that_was_not_opened_shows_nothing() -> None:
    found = views(lambda vectors, own: vectors, all_choices(6))
    assert tell_apart(found, lambda values: None) == (False, True)


def test_one_survivor_less_shows_the_sum_of_the_others_and_nothing_else() -> None:
    """The third is lost: its vector comes late, the pads of its edges are open, its own pad is not."""
    pads = all_choices(6)
    found = views(lambda vectors, own: [*vectors, own[0], own[1], pads[1], pads[2]], pads)
    assert tell_apart(found, lambda values: (values[0] + values[1]) % 4) == (False, True)


def test_the_enumeration_notices_a_missing_own_pad() -> None:
    """The control: with both secrets of the third open, its value shows."""
    pads = all_choices(6)
    found = views(lambda vectors, own: [*vectors, *own, pads[1], pads[2]], pads)
    assert tell_apart(found, total) == (True, True)
    bare = np.concatenate([all_choices(3), np.zeros((3, 64), dtype=np.uint64)])
    late = views(lambda vectors, own: [*vectors, bare[1], bare[2]], bare)
    assert tell_apart(late, lambda values: (values[0] + values[1]) % 4) == (True, True)


def test_the_enumeration_notices_a_pad_that_is_used_twice() -> None:
    pads = all_choices(6)
    pads[2] = pads[0]
    assert tell_apart(views(lambda vectors, own: [*vectors, *own], pads), total) == (True, True)


def test_the_enumeration_notices_a_pad_that_is_not_uniform() -> None:
    pads = all_choices(6)
    pads = pads[:, (pads[0] != UNIT) | (pads[1] != UNIT)]
    assert tell_apart(views(lambda vectors, own: [*vectors, *own], pads), total) == (True, True)


# Laying on, and what is refused


@given(st.integers(0, 2**32), st.sampled_from([32, 64]), st.integers(0, 4), st.integers(0, 4))
@PATIENT
def test_taking_off_is_laying_on_with_the_two_exchanged(seed: int, bits: int, plus: int, minus: int) -> None:
    rng, kind = np.random.default_rng(seed), np.dtype(f"<u{bits // 8}")
    value, *pads = np.frombuffer(rng.bytes((1 + plus + minus) * 5 * kind.itemsize), dtype=kind).reshape(-1, 5)
    before = value.copy()
    there = add_pads(value, added=pads[:plus], taken=pads[plus:])
    assert there.dtype == kind
    assert add_pads(there, added=pads[plus:], taken=pads[:plus]).tolist() == value.tolist() == before.tolist()


def test_a_vector_of_the_wrong_ring_or_length_is_refused_before_anything_is_sent() -> None:
    terms = terms_of(length=3)
    assert check_vector(ring_zeros(terms), terms).dtype == ring_dtype(terms) == np.uint64
    for bad in (
        np.zeros(3, dtype=np.uint32),
        np.zeros(3, dtype=np.int64),
        np.zeros(3, dtype=np.float64),
        np.zeros(4, dtype=np.uint64),
        np.zeros((3, 1), dtype=np.uint64),
    ):
        with pytest.raises(UsageError, match=messages.elements_of_the_ring(3, bits=64)):
            check_vector(bad, terms)


def test_bytes_that_are_no_vector_are_refused() -> None:
    terms = terms_of(length=3, ring_bits=32)
    assert read_vector(bytes(12), terms).tolist() == [0, 0, 0]
    for octets in (0, 11, 13, 8, 16):
        with pytest.raises(PeerError) as found:
            read_vector(bytes(octets), terms)
        assert found.value.fault is Fault.PARAMS_MISMATCH
