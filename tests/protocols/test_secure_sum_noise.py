"""A noisy secure sum is the ring sum and its survivors' shares of noise, exactly; and no share shows by itself."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.engines.protocol import Wire
from prirec.errors import Fault, UsageError
from prirec.protocols import secure_sum
from prirec.protocols.codec import decode, decode_content, encode
from prirec.protocols.messages import AnyMessage, Boxes, Keys, Masked, Participants, Reveal, Terms, Vector
from prirec.protocols.party import Persist, Stage, State
from prirec.protocols.secure_sum import Member, noise_seed
from prirec.protocols.terms import draw_noise
from support import messages
from support.low_floors import low_floor
from support.rounds import Gathering, Holding, gather, people, task_of, terms_of

NOISE = 10**6  # a standard deviation of a thousand
FLOOR = 10


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FLOOR)


def noisy(**changes: int) -> Terms:
    return terms_of("double", **({"noise": NOISE, "floor": FLOOR, "lost": 200} | changes))


def share_of(gathering: Gathering, at: int, *, size: int | None = None) -> np.ndarray:
    """What this member adds for a roster of this size; of all, if nobody was away."""
    one = gathering.members[at]
    return draw_noise(gathering.task.terms, size or len(gathering.members), seed=one._noise_seed)


def expected(gathering: Gathering, survivors: Sequence[int], *, size: int | None = None) -> list[int]:
    shares = sum(share_of(gathering, at, size=size) for at in survivors)
    return (gathering.total(survivors) + shares).tolist()


def assert_opened(gathering: Gathering, wire: Wire, survivors: Sequence[int], *, size: int | None = None) -> None:
    assert not wire.aborted
    assert sorted(wire.finished) == [gathering.collector.name]
    for found in wire.finished.values():
        assert found.summands == len(survivors)
        assert found.total.tolist() == expected(gathering, survivors, size=size)


def silent(gathering: Gathering, **who: Sequence[int]) -> Callable[[AnyMessage], Sequence[int]]:
    """Nothing of these kinds arrives from these members."""
    kinds = {"keys": Keys, "boxes": Boxes, "vectors": Masked, "reveals": Reveal}
    lost = {(kinds[kind], gathering.names[at]) for kind, positions in who.items() for at in positions}
    return lambda message: () if (type(message), message.sender) in lost else (0,)


@pytest.mark.parametrize("bits", [32, 64])
def test_the_opened_sum_is_the_sum_and_everyones_noise(bits: int) -> None:
    gathering = gather(FLOOR, noisy(ring_bits=bits))
    assert_opened(gathering, gathering.run(), range(FLOOR))
    shares = [share_of(gathering, at).tolist() for at in range(FLOOR)]
    assert len({tuple(one) for one in shares}) == FLOOR


def test_the_noise_of_those_who_are_lost_is_lost_with_them() -> None:
    gathering = gather(12, noisy())
    fate = silent(gathering, boxes=[0], vectors=[11], reveals=[9])
    survivors = sorted(set(range(12)) - {0, 11})
    assert_opened(gathering, gathering.run(fate), survivors)


def test_on_a_sparse_mask_graph_the_opened_sum_has_everyones_noise_too() -> None:
    gathering = gather(75, noisy(corrupt=0, lost=30, length=2))
    wire = gathering.run(silent(gathering, vectors=[3, 70]))
    assert not gathering.members[0]._view.graph.is_complete
    assert_opened(gathering, wire, sorted(set(range(75)) - {3, 70}))


def test_the_share_is_sized_for_the_roster_and_not_for_those_who_were_invited() -> None:
    gathering = gather(15, noisy())
    away = [1, 2, 14]
    came = sorted(set(range(15)) - set(away))
    assert_opened(gathering, gathering.run(silent(gathering, keys=away)), came, size=12)
    assert expected(gathering, came, size=12) != expected(gathering, came, size=15)


def test_below_the_fewest_survivors_nothing_is_opened() -> None:
    gathering = gather(11, noisy())
    wire = gathering.run(silent(gathering, vectors=[0, 1]))
    assert not wire.finished
    assert gathering.collector.state is State.BURNT


def test_a_roster_below_the_floor_is_not_convened() -> None:
    gathering = gather(11, noisy())
    wire = gathering.run(silent(gathering, keys=[0, 1]))
    assert not wire.finished
    assert not any(journal_of(gathering, at, Stage.MASKED) for at in range(11))


# Who takes part


@pytest.mark.parametrize("noise", [0, NOISE - 1, NOISE + 1, 2**52])
def test_devices_that_hold_other_noise_do_not_take_part(noise: int) -> None:
    """Less noise than they were told of: they would be charged too little. More: they hold other settings."""
    elsewhere = {at: task_of(noisy(noise=noise)) for at in (4, 7)}
    gathering = gather(12, noisy(), other=elsewhere)
    wire = gathering.run()
    assert [fault.fault for fault in wire.refused] == [Fault.PARAMS_MISMATCH] * 2
    assert_opened(gathering, wire, sorted(set(range(12)) - {4, 7}), size=10)
    assert not any(journal_of(gathering, at, Stage.MASKED) for at in (4, 7))


def test_a_recommender_without_noise_finds_nobody() -> None:
    """All devices hold noisy terms: a collector that calls for none is refused by every one of them."""
    gathering = gather(FLOOR, noisy(noise=0), other={at: task_of(noisy()) for at in range(FLOOR)})
    wire = gathering.run()
    assert not wire.finished
    assert [fault.fault for fault in wire.refused] == [Fault.PARAMS_MISMATCH] * FLOOR
    assert not any(journal_of(gathering, at, Stage.ENTERED) for at in range(FLOOR))


# What is charged for, and what is sent


def journal_of(gathering: Gathering, at: int, stage: Stage) -> list[Persist]:
    written = gathering.journals[gathering.names[at]].written
    return [one for one in written if one.stage is stage]


class Listening(Wire):
    """Remembers every message, and what its sender had written down by then."""

    def __init__(self, gathering: Gathering) -> None:
        super().__init__(self._heard)
        self.gathering, self.sent = gathering, list[tuple[AnyMessage, list[Stage]]]()

    def _heard(self, message: AnyMessage) -> Sequence[int]:
        written = self.gathering.journals[message.sender].written
        self.sent.append((message, [one.stage for one in written]))
        return (0,)

    def messages(self, *kinds: type) -> list[AnyMessage]:
        return [message for message, _ in self.sent if not kinds or isinstance(message, kinds)]


def listened(gathering: Gathering) -> Listening:
    wire = Listening(gathering)
    gathering.on(wire)
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    wire.run(gathering.collector)
    return wire


def test_what_is_charged_for_is_written_before_the_noisy_vector_leaves_and_is_that_vector() -> None:
    gathering = gather(FLOOR, noisy())
    wire = listened(gathering)
    vectors = {message.sender: stages for message, stages in wire.sent if isinstance(message, Masked)}
    assert len(vectors) == FLOOR
    assert all(stages == [Stage.ENTERED, Stage.MASKED] for stages in vectors.values())
    for at, name in enumerate(gathering.names):
        (masked,) = journal_of(gathering, at, Stage.MASKED)
        (sent,) = [one for one in wire.messages(Masked) if one.sender == name]
        assert masked.payload == encode(sent)
        assert decode(masked.payload) == sent


@cache
def twins() -> tuple[Gathering, Listening, Gathering, Listening]:
    """The same round twice, all secrets of all members alike but those for noise."""
    first, second = gather(FLOOR, noisy()), gather(FLOOR, noisy())
    for at, one in enumerate(second.members):
        one._noise_seed = bytes([at]) * 32
    return first, listened(first), second, listened(second)


def test_nothing_but_the_masked_vector_depends_on_the_noise() -> None:
    _, heard, _, also_heard = twins()
    pairs = list(zip(heard.messages(), also_heard.messages(), strict=True))
    changed = {type(one) for one, other in pairs if one != other}
    assert changed == {Masked}
    for one, other in pairs:
        assert len(encode(one)) == len(encode(other))  # nor does a length
        if isinstance(one, Masked):
            assert msgspec.structs.replace(one, sealed=b"") == msgspec.structs.replace(other, sealed=b"")


def inside(gathering: Gathering, message: Any) -> Vector:
    return decode_content(Vector, gathering.collector.unseal(message.sender, Masked, message.sealed))


def test_in_the_vector_the_noise_is_added_to_the_value_and_nowhere_else() -> None:
    """What a collector unseals from two twins differs by their noise: pads and commitments are the same."""
    first, heard, second, also_heard = twins()
    for one, other in zip(heard.messages(Masked), also_heard.messages(Masked), strict=True):
        at = first.names.index(one.sender)
        vectors = inside(first, one), inside(second, other)
        values = [np.frombuffer(vector.values, dtype=np.uint64) for vector in vectors]
        noise = share_of(first, at) - share_of(second, at)
        assert noise.any()
        assert (values[0] - values[1]).tolist() == noise.tolist()
        assert vectors[0].commitment == vectors[1].commitment


def test_no_message_holds_a_share_of_noise_or_its_seed() -> None:
    first, heard, _, _ = twins()
    sent = b"".join(encode(message) for message in heard.messages())
    for at, one in enumerate(first.members):
        share = share_of(first, at)
        for secret in (one._noise_seed, share.tobytes(), (first.values[at] + share).tobytes()):
            assert secret not in sent


def test_a_member_that_forgets_its_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted mistake: one device of ten adds nothing, or its share twice."""
    real = secure_sum.draw_noise
    for times in (0, 2):
        gathering = gather(FLOOR, noisy())
        victim = gathering.members[7]._noise_seed

        def wrong(terms: Terms, size: int, *, seed: bytes, times: int = times, of: bytes = victim) -> np.ndarray:
            share = real(terms, size, seed=seed)
            return share * share.dtype.type(times) if seed == of else share

        monkeypatch.setattr(secure_sum, "draw_noise", wrong)
        with pytest.raises(AssertionError):
            assert_opened(gathering, gathering.run(), range(FLOOR))


# A member's entropy


def test_noise_has_bytes_of_its_own_in_a_members_entropy() -> None:
    entropy = bytes(range(secure_sum.ENTROPY))
    one = Member(task_of(noisy()), identity=people(FLOOR)[0], value=np.zeros(3, dtype=np.uint64), entropy=entropy)
    assert one._noise_seed == noise_seed(entropy) == entropy[192:224]
    others = entropy[:32], entropy[32:64], entropy[64:96], one._seed, *one._coefficients
    assert len({*others, one._noise_seed}) == 7
    assert b"".join([*others, one._noise_seed]) == entropy


@pytest.mark.parametrize("size", [0, secure_sum.ENTROPY - 32, secure_sum.ENTROPY - 1, secure_sum.ENTROPY + 1])
def test_a_member_without_bytes_for_its_noise_is_refused(size: int) -> None:
    with pytest.raises(UsageError, match=messages.ENTROPY_TOO_SHORT):
        Member(task_of(noisy()), identity=people(FLOOR)[0], value=np.zeros(3, dtype=np.uint64), entropy=bytes(size))


def test_a_vector_is_masked_once_whatever_is_delivered_again() -> None:
    """Two vectors of one round with the same noise would give their difference away."""
    gathering = gather(FLOOR, noisy())
    wire = Holding(Masked)
    gathering.on(wire)
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    for _ in range(3):
        wire._deliver()
        wire.do(gathering.collector, gathering.collector.advance())
    wire._deliver()
    told = [message for message in wire.sent if isinstance(message, Participants)]
    first, before = gathering.members[0], len(wire.kept)
    again = next(one for one in told if one.receiver == first.name)
    repeated = [action for action in first.receive(again) if not isinstance(action, Persist)]
    kept = next(one for one in wire.kept if one.sender == first.name)
    assert before == FLOOR
    assert all(action.message == kept for action in repeated)
