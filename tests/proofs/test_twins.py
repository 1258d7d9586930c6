"""The fast PINE equals the one in plain integers, bit for bit: reports, verifier shares, decisions, sums."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.errors import PeerError, UsageError
from prirec.proofs import pine
from prirec.proofs.parameters import MODULUS, Parameters
from support import messages
from support.hypothesis_settings import FEW
from vectors import reference_proofs as plain

KEY, NONCE = bytes(range(32)), bytes(range(16))
BYTES = st.binary(min_size=pine.RANDOMNESS, max_size=pine.RANDOMNESS)
SMALL = Parameters(dimension=7, norm_bound=10, chunk=3, norm_chunk=2, checks=5, successes=5)


@st.composite
def reports(draw):
    """Parameters of any shape, and a vector that they allow."""
    p = Parameters(
        dimension=draw(st.integers(1, 20)),
        norm_bound=draw(st.sampled_from([1, 2, 5, 128, 1000, 2**20])),
        chunk=draw(st.integers(1, 12)),
        norm_chunk=draw(st.integers(1, 24)),
        proofs=draw(st.integers(1, 3)),
        norm_proofs=draw(st.integers(1, 2)),
        checks=(checks := draw(st.integers(1, 6))),
        successes=draw(st.integers(1, checks)),
        alpha=draw(st.sampled_from([0.5, 1.0, 8.7])),
    )
    most = int(p.norm_bound // p.dimension**0.5)
    vector = draw(st.lists(st.integers(-most, most), min_size=p.dimension, max_size=p.dimension))
    return p, vector, draw(BYTES)


def prepared(twin, p, report, operator, key=KEY):
    share = report.leader if operator == pine.LEADER else report.helper
    return twin.prepare(p, key, operator, nonce=NONCE, public=report.public, share=share)


@settings(max_examples=15)
@given(case=reports())
def test_twins_agree_on_every_byte_and_open_to_the_vector(case):
    p, vector, randomness = case
    report = pine.shard(p, np.array(vector), NONCE, randomness)
    assert report == plain.shard(p, vector, NONCE, randomness)
    if report is None:
        return
    both = [[prepared(twin, p, report, operator) for operator in (0, 1)] for twin in (pine, plain)]
    shares = [[share for _, share in operators] for operators in both]
    assert shares[0] == shares[1]
    message = pine.combine(p, shares[0])
    assert message == plain.combine(p, shares[0])
    entries, plain_entries = (
        [twin.finish(s, message) for s, _ in operators] for twin, operators in zip((pine, plain), both, strict=True)
    )
    assert [share.tolist() for share in entries] == plain_entries
    assert pine.opened(*entries).tolist() == plain.opened(*plain_entries) == vector


@FEW
@given(
    case=reports(),
    at=st.integers(0, 2**16),
    bit=st.integers(0, 7),
    part=st.sampled_from(["public", "leader", "helper"]),
)
def test_twins_agree_about_a_report_with_one_bit_changed(case, at, bit, part):
    p, vector, randomness = case
    report = pine.shard(p, np.array(vector), NONCE, randomness)
    if report is None:
        return
    changed = bytearray(getattr(report, part))
    changed[at % len(changed)] ^= 1 << bit
    lie = report._replace(**{part: bytes(changed)})
    assert outcome(pine, p, lie) == outcome(plain, p, lie)
    assert outcome(pine, p, lie)[0] in ("DECODE", "PROOF")


def outcome(twin, p, report):
    """Whatever the operators send each other, and how it ends."""
    shares = []
    try:
        states, sent = zip(*(prepared(twin, p, report, operator) for operator in (0, 1)), strict=True)
        shares = list(sent)
        message = twin.combine(p, shares)
        return "accepted", shares, [list(twin.finish(state, message)) for state in states]
    except PeerError as refusal:
        return refusal.fault.value, shares, str(refusal)


@given(vectors=st.lists(st.lists(st.integers(0, MODULUS - 1), min_size=7, max_size=7), max_size=4))
def test_sums_of_shares_agree(vectors):
    found = pine.total(SMALL, [np.array(vector, np.uint64) for vector in vectors])
    assert found.tolist() == plain.total(SMALL, vectors)


def test_elements_left_out_of_a_stream_do_not_part_the_twins():
    randomness = (1_677_128).to_bytes(32, "little") + bytes(6 * 32)  # see test_streams.py
    report = pine.shard(SMALL, np.arange(-3, 4), NONCE, randomness)
    assert report is not None
    assert report == plain.shard(SMALL, list(range(-3, 4)), NONCE, randomness)
    assert outcome(pine, SMALL, report) == outcome(plain, SMALL, report)
    assert outcome(pine, SMALL, report)[0] == "accepted"


def test_a_point_at_which_a_wire_would_show_is_refused_by_both():
    """The key decides on the points; here it is the proof system that is asked, since no key is known for a root."""
    p, root = SMALL, plain.FIELD64.root(SMALL.points)
    with pytest.raises(PeerError, match=messages.POINT_OF_A_WIRE):
        plain.bits_circuit(p).query([0] * (p.encoded_length + p.checks), [0] * p.proof_length, root, [0, 0, 0], 1)
    zeros = np.zeros(p.encoded_length + p.proofs_length, np.uint64)
    with pytest.raises(PeerError, match=messages.POINT_OF_A_WIRE):
        pine.circuits.query(
            p, zeros[: p.encoded_length], zeros[: p.checks], proofs=zeros[: p.proofs_length],
            at=np.array([2, root, 2], np.uint64), joint=np.zeros((p.proofs, 3), np.uint64),
        )  # fmt: skip


# What neither takes


@pytest.mark.parametrize("twin", [pine, plain])
def test_a_vector_beyond_its_bound_or_of_another_length_is_not_reported(twin):
    randomness = bytes(pine.RANDOMNESS)
    for vector in (
        [10, 1, 0, 0, 0, 0, 0],
        [11, 0, 0, 0, 0, 0, 0],
        [-11, 0, 0, 0, 0, 0, 0],
        [6, 6, 6, 0, 0, 0, 0],
        [-(2**62)] * 7,
    ):
        with pytest.raises(UsageError, match=messages.LONGER_THAN_ITS_BOUND):
            twin.shard(SMALL, vector, NONCE, randomness)
    assert twin.shard(SMALL, [10, 0, 0, 0, 0, 0, 0], NONCE, randomness) is not None
    with pytest.raises(UsageError, match=messages.VECTOR_OF_ANOTHER_LENGTH):
        twin.shard(SMALL, [1] * 8, NONCE, randomness)
    with pytest.raises(UsageError, match=messages.RANDOM_BYTES_OF_A_REPORT):
        twin.shard(SMALL, [1] * 7, NONCE, randomness[1:])


@pytest.mark.parametrize("twin", [pine, plain])
def test_bytes_that_are_no_shares_are_refused(twin):
    report = pine.shard(SMALL, np.ones(7, np.int64), NONCE, bytes(pine.RANDOMNESS))
    beyond = MODULUS.to_bytes(8, "little")
    malformed = [
        (0, report._replace(leader=report.leader + b"\0")),
        (0, report._replace(leader=b"")),
        (0, report._replace(leader=beyond + report.leader[8:])),
        (1, report._replace(helper=report.helper[:-1])),
        (0, report._replace(public=report.public[:-1])),
    ]
    for operator, lie in malformed:
        with pytest.raises(PeerError, match=messages.DECODE):
            prepared(twin, SMALL, lie, operator)
    shares = [prepared(twin, SMALL, report, operator)[1] for operator in (0, 1)]
    for lie in (shares[0][:-1], beyond + shares[0][8:]):
        with pytest.raises(PeerError, match=messages.DECODE):
            twin.combine(SMALL, [lie, shares[1]])


@pytest.mark.parametrize("twin", [pine, plain])
def test_an_operator_gives_nothing_out_for_another_message(twin):
    report = pine.shard(SMALL, np.ones(7, np.int64), NONCE, bytes(pine.RANDOMNESS))
    (state, leaders), (_, helpers) = (prepared(twin, SMALL, report, operator) for operator in (0, 1))
    message = twin.combine(SMALL, [leaders, helpers])
    for lie in (message[::-1], message[:32], b"", message[32:] + message[:32]):
        with pytest.raises(PeerError, match=messages.JOINT_RANDOMNESS_OF_OTHER_SHARES):
            twin.finish(state, lie)


def test_keys_and_nonces_of_other_lengths_are_refused():
    report = pine.shard(SMALL, np.ones(7, np.int64), NONCE, bytes(pine.RANDOMNESS))
    with pytest.raises(UsageError, match=messages.VERIFICATION_KEY_LENGTH):
        prepared(pine, SMALL, report, 0, key=KEY[1:])
    with pytest.raises(PeerError, match=messages.DECODE):
        pine.prepare(SMALL, KEY, 0, nonce=NONCE[1:], public=report.public, share=report.leader)
    with pytest.raises(UsageError, match=messages.RANDOM_BYTES_OF_A_REPORT):
        pine.shard(SMALL, np.ones(7, np.int64), NONCE[1:], bytes(pine.RANDOMNESS))


def test_reports_and_states_do_not_print():
    report = pine.shard(SMALL, np.ones(7, np.int64), NONCE, bytes(pine.RANDOMNESS))
    state, _ = prepared(pine, SMALL, report, 0)
    assert repr(report) == "Report(secret)"
    assert repr(state) == "State(secret)"


# Drawing anew


def test_a_device_draws_anew_until_its_checks_pass():
    """With so small an alpha a vector along one axis fails a check where its sign is not 0: with odds of 1/2."""
    p = replace(SMALL, norm_bound=1000, alpha=0.001)
    vector, drawn = np.array([1000, 0, 0, 0, 0, 0, 0]), []

    def draw(size: int) -> bytes:
        drawn.append(np.random.default_rng(len(drawn)).bytes(size))
        return drawn[-1]

    for _ in range(20):
        report = pine.report(p, vector, NONCE, draw)
        assert report == pine.shard(p, vector, NONCE, drawn[-1])
        assert outcome(pine, p, report)[0] == "accepted"
    assert len(drawn) > 100  # 2^5 draws a report are to be expected
    assert sum(pine.shard(p, vector, NONCE, randomness) is None for randomness in drawn) == len(drawn) - 20


def test_a_device_gives_up_where_no_draw_would_do():
    p = replace(SMALL, norm_bound=1000, alpha=0.001, checks=200, successes=200)
    with pytest.raises(UsageError, match=messages.LARGER_ALPHA):
        pine.report(p, np.array([1000, 0, 0, 0, 0, 0, 0]), NONCE, np.random.default_rng(0).bytes)


# Parameters


@pytest.mark.parametrize(
    "change",
    [
        *(
            {name: 0}
            for name in ("dimension", "norm_bound", "chunk", "norm_chunk", "proofs", "norm_proofs", "successes")
        ),
        {"successes": 6},
        *({"alpha": alpha} for alpha in (0.0, float("nan"), float("inf"))),
    ],
)
def test_sizes_that_make_no_report_are_refused(change):
    with pytest.raises(UsageError, match=messages.SIZES_OF_A_REPORT):
        replace(SMALL, **change)


def test_as_many_proofs_as_one_byte_counts():
    assert replace(SMALL, proofs=255, norm_proofs=255).proofs == 255
    for change in ({"proofs": 256}, {"norm_proofs": 256}):
        with pytest.raises(UsageError, match=messages.PROOFS_IN_ONE_BYTE):
            replace(SMALL, **change)


def test_bounds_for_which_the_field_is_too_small_are_refused():
    most = 2_479_700_524  # 3 · most² + 2 < p
    assert replace(SMALL, norm_bound=most).norm_bound == most
    for change in ({"norm_bound": most + 1}, {"norm_bound": most, "alpha": 100.0}, {"checks": 2**63}):
        with pytest.raises(UsageError, match=messages.BOUND_TOO_LARGE_FOR_THE_FIELD):
            replace(SMALL, **change)


@given(dimension=st.integers(1, 300), bound=st.sampled_from([1, 100, 4096]), checks=st.integers(1, 40))
def test_no_other_chunks_make_a_shorter_report(dimension, bound, checks):
    best = Parameters.shortest(dimension=dimension, norm_bound=bound, checks=checks, successes=checks)
    others = range(1, max(dimension, best.bits_length + checks) + 1)
    assert best.norm_proof_length == min(replace(best, norm_chunk=c).norm_proof_length for c in others)
    assert best.proof_length == min(replace(best, chunk=c).proof_length for c in others)
