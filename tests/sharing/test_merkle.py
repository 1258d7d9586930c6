"""The hash tree: one root for one list, the fewest hashes in a proof, and nothing that passes for part of another."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import Fault, PeerError, UsageError
from prirec.sharing.merkle import Tree, check
from support import messages
from support.hypothesis_settings import PATIENT

HASH = 32


def root(leaves):
    return Tree(leaves).root


def prove(leaves, positions):
    return Tree(leaves).prove(positions)


def hashed(*parts: bytes) -> bytes:
    return sha256(b"".join(parts)).digest()


def list_of(size: int) -> list[bytes]:
    return [b"leaf %d" % at for at in range(size)]


def by_the_book(leaves: list[bytes]) -> bytes:
    """The same tree from the top down: the left part is the largest power of two below the size."""

    def top(part: list[bytes]) -> bytes:
        if len(part) == 1:
            return hashed(b"\0", part[0])
        cut = 1 << ((len(part) - 1).bit_length() - 1)
        return hashed(b"\1", top(part[:cut]), top(part[cut:]))

    return hashed(b"\2", len(leaves).to_bytes(8, "big"), top(leaves))


@st.composite
def lists_and_positions(draw):
    leaves = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=40))
    positions = draw(st.sets(st.integers(0, len(leaves) - 1), min_size=1))
    return leaves, positions


def refused(root: bytes, *, size: int, known: dict[int, bytes], proof: tuple[bytes, ...]) -> bool:
    with pytest.raises(PeerError, match=messages.NOT_IN_THE_LIST) as refusal:
        check(root, size=size, known=known, proof=proof)
    return refusal.value.fault == Fault.PARAMS_MISMATCH


def test_the_root_of_three_leaves_is_written_out():
    a, b, c = list_of(3)
    pair = hashed(b"\1", hashed(b"\0", a), hashed(b"\0", b))
    assert root([a, b, c]) == hashed(b"\2", bytes(7), b"\3", hashed(b"\1", pair, hashed(b"\0", c)))


@pytest.mark.parametrize("size", [*range(1, 34), 100, 257])
def test_the_root_is_that_of_the_recursive_definition(size):
    assert root(list_of(size)) == by_the_book(list_of(size))


@PATIENT
@given(lists_and_positions(), st.randoms())
def test_what_is_proved_checks_in_whatever_order_the_leaves_are_given(drawn, shuffler):
    leaves, positions = drawn
    order = sorted(positions)
    shuffler.shuffle(order)
    check(root(leaves), size=len(leaves), known={at: leaves[at] for at in order}, proof=prove(leaves, positions))


@PATIENT
@given(lists_and_positions(), st.randoms())
def test_neither_the_order_of_positions_nor_repeating_them_changes_a_proof(drawn, shuffler):
    leaves, positions = drawn
    again = [*positions, *positions]
    shuffler.shuffle(again)
    assert prove(leaves, again) == Tree(leaves).prove(sorted(positions))


@PATIENT
@given(lists_and_positions())
def test_a_proof_holds_one_hash_for_each_largest_part_that_is_left_out(drawn):
    leaves, positions = drawn

    def left_out(start: int, stop: int) -> int:
        if not positions.intersection(range(start, stop)):
            return 1
        if stop - start == 1:
            return 0
        cut = start + (1 << ((stop - start - 1).bit_length() - 1))
        return left_out(start, cut) + left_out(cut, stop)

    assert len(prove(leaves, positions)) == left_out(0, len(leaves))


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_all_leaves_together_need_no_proof(size):
    leaves = list_of(size)
    assert prove(leaves, range(size)) == ()
    check(root(leaves), size=size, known=dict(enumerate(leaves)), proof=())


@PATIENT
@given(lists_and_positions(), st.data())
def test_a_proof_with_anything_changed_is_refused(drawn, data):
    leaves, positions = drawn
    known, proof, size = {at: leaves[at] for at in positions}, prove(leaves, positions), len(leaves)
    top, at = root(leaves), data.draw(st.sampled_from(sorted(positions)))
    assert refused(top, size=size, known={**known, at: known[at] + b"!"}, proof=proof)
    assert refused(bytes(HASH), size=size, known=known, proof=proof)
    assert refused(top, size=size, known=known, proof=(*proof, bytes(HASH)))
    assert refused(top, size=data.draw(st.integers(-3, 90).filter(lambda n: n != size)), known=known, proof=proof)
    if proof:
        one = data.draw(st.integers(0, len(proof) - 1))
        flipped = bytes([proof[one][0] ^ 1]) + proof[one][1:]
        assert refused(top, size=size, known=known, proof=(*proof[:one], flipped, *proof[one + 1 :]))
        assert refused(top, size=size, known=known, proof=(*proof[:one], *proof[one + 1 :]))
        assert refused(top, size=size, known=known, proof=(*proof[:one], proof[one][:-1], *proof[one + 1 :]))


def test_a_leaf_does_not_pass_at_another_position():
    leaves = list_of(5)
    for at in range(5):
        for other in set(range(5)) - {at}:
            assert refused(root(leaves), size=5, known={other: leaves[at]}, proof=prove(leaves, [other]))


def test_lists_that_differ_only_in_size_or_grouping_have_different_roots():
    a, b = list_of(2)
    inner = hashed(b"\0", a) + hashed(b"\0", b)
    same_looking = [[a], [a, a], [a, a, a], [a, b], [b, a], [a + b], [inner], [b"\1" + inner], [hashed(b"\1", inner)]]
    assert len({root(leaves) for leaves in same_looking}) == len(same_looking)


@pytest.mark.parametrize("known", [{}, {-1: b"leaf 0"}, {4: b"leaf 0"}])
def test_positions_outside_the_list_prove_nothing(known):
    assert refused(root(list_of(4)), size=4, known=known, proof=())


def test_bytes_do_not_move_between_two_hashes_of_a_proof():
    leaves = list_of(4)
    first, second = prove(leaves, [0])
    assert refused(root(leaves), size=4, known={0: leaves[0]}, proof=(first + second[:1], second[1:]))


@pytest.mark.parametrize("positions", [[], [-1], [3], [0, 7]])
def test_a_proof_for_no_leaf_or_unknown_positions_is_a_usage_error(positions):
    with pytest.raises(UsageError, match=messages.position_in_the_list(2)):
        prove(list_of(3), positions)


def test_an_empty_list_has_no_root():
    with pytest.raises(UsageError, match=messages.NO_LEAF):
        root([])
