"""Bytes of documents, of the log, and of what operators say to each other: one thing in one spelling, or a typed
error."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import LIMIT, decode_with, encode
from prirec.wire import documents, operators
from support import messages
from support.fuzzing import any_of, fuzzed, sample
from support.hypothesis_settings import FEW

READ: dict[str, Any] = {
    "documents": documents.Document,
    "the log": documents.Page,
    "requests": operators.OperatorRequest,
    "answers": operators.OperatorAnswer,
    "envelopes": operators.SignedEnvelope,
}
KINDS = [pytest.param(what, kind, id=f"{what}: {kind.__name__}") for what, whole in READ.items()
         for kind in get_args(whole) or (whole,)]  # fmt: skip


def read(what: str, data: bytes) -> Any:
    return decode_with(msgspec.msgpack.Decoder(READ[what]), data, limit=LIMIT)


def samples(what: str) -> list[bytes]:
    kinds = get_args(READ[what]) or (READ[what],)
    return [encode(sample(msgspec.inspect.type_info(kind), size=size)) for kind in kinds for size in (0, 2)]


@pytest.mark.parametrize(("what", "kind"), KINDS)
def test_every_kind_comes_back_as_it_was(what: str, kind: type[Any]) -> None:
    @given(any_of(kind))
    @FEW
    def comes_back(said: Any) -> None:
        data = encode(said)
        assert type(read(what, data)) is kind
        assert encode(read(what, data)) == data

    comes_back()


def survive(what: str, *, seed: int, many: int) -> int:
    """How many of the inputs could be read all the same; of the others each meets a DECODE."""
    decoder, taken, faults = msgspec.msgpack.Decoder(READ[what]), 0, set()
    for data in fuzzed(samples(what), seed=seed, many=many):
        try:
            found = decode_with(decoder, data, limit=LIMIT)
        except PeerError as refusal:
            faults.add(refusal.fault)
        else:
            assert encode(found) == data
            taken += 1
    assert faults == {Fault.DECODE}
    return taken


@pytest.mark.parametrize("what", READ)
def test_ten_thousand_bad_inputs_meet_a_typed_error(what: str) -> None:
    assert 0 < survive(what, seed=1, many=10_000) < 5000


@pytest.mark.soak
@pytest.mark.parametrize("what", READ)
def test_a_million_bad_inputs_meet_a_typed_error(what: str) -> None:
    survive(what, seed=2, many=1_000_000)


@pytest.mark.parametrize("what", READ)
def test_every_cut_and_every_extension_is_refused(what: str) -> None:
    for data in samples(what):
        for wrong in [*(data[:at] for at in range(len(data))), data + b"\0", data + data]:
            with pytest.raises(PeerError, match=messages.DECODE):
                read(what, wrong)
