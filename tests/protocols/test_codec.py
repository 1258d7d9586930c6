"""The codec: exactly one message or a typed error, in one spelling only, and nothing of the input in any text."""

import typing
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import LIMIT, OVERHEAD, bitmap, decode, decode_content, encode, positions
from prirec.protocols.mask_graph import MOST_DEVICES, MOST_NEIGHBOURS
from prirec.protocols.messages import (
    COMMITMENT,
    VERSION,
    Agreements,
    AnyContent,
    AnyMessage,
    Box,
    Boxes,
    Delivery,
    Keys,
    Message,
    Partial,
    Participants,
    Receipt,
    Reveal,
    Revealed,
    Roster,
    RosterEntry,
    Round,
    Secrets,
    SecretStruct,
    Share,
    Signed,
    Survivors,
    Vector,
    step,
)
from support import messages
from support.fuzzing import any_of, fuzzed, sample
from support.hypothesis_settings import PATIENT
from support.rounds import OUTSIDER, RECOMMENDER

MESSAGES: tuple[type[Message], ...] = typing.get_args(AnyMessage)
CONTENTS: tuple[type[Any], ...] = typing.get_args(AnyContent)


def result(read: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """What came out, or the fault."""
    try:
        return read(*given, **named)
    except PeerError as fault:
        return fault.fault


@pytest.fixture(scope="module")
def samples() -> list[bytes]:
    """One valid message of each kind, and one with everything at length."""
    of = Round(bytes(16), "linear", 1)
    names = (RECOMMENDER.public, OUTSIDER.public)
    made = []
    for kind in MESSAGES:
        for size in (0, 2):
            fields = msgspec.inspect.type_info(kind).fields[4:]
            made.append(encode(kind(VERSION, of, *names, *(sample(field.type, size=size) for field in fields))))
    return made


@pytest.mark.parametrize("kind", MESSAGES)
def test_every_message_comes_back_as_it_was(kind: type[AnyMessage]) -> None:
    @given(any_of(kind))
    @PATIENT
    def comes_back(message: AnyMessage) -> None:
        data = encode(message)
        assert decode(data) == message
        assert type(decode(data)) is kind
        assert encode(decode(data)) == data

    comes_back()


@pytest.mark.parametrize("kind", CONTENTS)
def test_every_content_comes_back_as_it_was(kind: type[Any]) -> None:
    @given(any_of(kind))
    @PATIENT
    def comes_back(content: Any) -> None:
        assert decode_content(kind, encode(content)) == content

    comes_back()


def test_every_kind_has_a_step_of_its_own() -> None:
    steps = [step(kind) for kind in (*MESSAGES, *CONTENTS)]
    assert len(set(steps)) == len(steps)


@pytest.mark.parametrize("kind", MESSAGES)
def test_every_message_begins_with_version_round_sender_and_receiver(kind: type[Message]) -> None:
    assert kind.__struct_fields__[:4] == ("version", "round", "sender", "receiver")


def survive(samples: list[bytes], *, seed: int, many: int) -> tuple[int, set[str]]:
    """How many of the inputs were messages all the same, and what the others met: always a DECODE."""
    taken, texts, faults = 0, set(), set()
    for data in fuzzed(samples, seed=seed, many=many):
        try:
            message = decode(data)
        except PeerError as fault:
            texts.add(str(fault))
            faults.add(fault.fault)
        else:
            assert encode(message) == data
            taken += 1
    assert faults == {Fault.DECODE}
    assert texts <= TEXTS
    return taken, texts


TEXTS = {
    "DECODE: these bytes are not exactly one message of this version",
    "DECODE: these bytes are not the canonical form of a message",
    f"DECODE: a message of another version of the protocols than {VERSION}, which this program speaks; update the "
    "older of the two, the device or the recommender",
}


def test_a_hundred_thousand_bad_inputs_meet_a_typed_error(samples: list[bytes]) -> None:
    many = 100_000
    taken, texts = survive(samples, seed=1, many=many)
    assert 0 < taken < many / 2
    assert texts == TEXTS


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_million_bad_inputs_meet_a_typed_error(samples: list[bytes], seed: int) -> None:
    survive(samples, seed=seed, many=100_000)


@given(st.binary(max_size=200))
@PATIENT
def test_any_bytes_meet_a_typed_error_or_are_canonical(data: bytes) -> None:
    for read in (decode, lambda found: decode_content(Vector, found)):
        found = result(read, data)
        assert found is Fault.DECODE or encode(found) == data


def test_every_cut_and_every_extension_is_refused(samples: list[bytes]) -> None:
    for data in samples:
        for at in range(len(data)):
            with pytest.raises(PeerError, match=messages.DECODE):
                decode(data[:at])
        for more in (b"\0", b"\xc0", data):
            with pytest.raises(PeerError, match=messages.DECODE):
                decode(data + more)


@pytest.mark.parametrize("opening", [b"\x91", b"\x81\x00", b"\x81\xa1a", b"\xdc\x00\x01", b"\xdd\x00\x00\x00\x01"])
def test_deep_nests_are_refused(samples: list[bytes], opening: bytes) -> None:
    for inside in (b"", samples[0]):
        for depth in (50, 2_000, 500_000):
            with pytest.raises(PeerError, match=messages.DECODE):
                decode(opening * depth + inside)
    head = encode(Keys(VERSION, Round(bytes(16), "k", 1), *[bytes(32)] * 5, bytes(64)))
    with pytest.raises(PeerError, match=messages.DECODE):
        decode(head[:-66] + opening * 100_000)


def test_a_length_that_is_only_promised_takes_no_memory() -> None:
    head = encode(Revealed((), ()))[:-2]
    for promise in (b"\xdd\xff\xff\xff\xff", b"\xdc\xff\xff", b"\xc6\xff\xff\xff\xff"):
        with pytest.raises(PeerError, match=messages.DECODE):
            decode_content(Revealed, head + promise)


@pytest.mark.parametrize("version", [0, 1, VERSION + 1, 2**31 - 1])
def test_of_a_message_of_another_version_it_is_said_what_to_do(version: int) -> None:
    partial = Partial(VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), b"\1")
    data = encode(msgspec.structs.replace(partial, version=version))
    with pytest.raises(PeerError, match=messages.OTHER_VERSION) as found:
        decode(data)
    assert found.value.fault is Fault.DECODE
    with pytest.raises(PeerError, match=messages.NOT_ONE_MESSAGE):  # whatever else it is, it is of this version
        decode(encode(msgspec.structs.replace(partial, sender=b"")))


def test_text_that_is_no_text_is_refused() -> None:
    data = encode(Partial(VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), b"\1"))
    for bad in (data.replace(b"partial", b"part\xff\xfe\xfd"), data.replace(b"linear", b"\xe2near\xff")):
        with pytest.raises(PeerError, match=messages.DECODE) as found:
            decode(bad)
        assert found.value.__cause__ is None


def test_longer_spellings_of_the_same_message_are_refused() -> None:
    message = Partial(VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), b"\1")
    data = encode(message)
    assert data.endswith(b"\xc4\1\1")
    longer = data[:-3] + b"\xc5\0\1\1"
    assert msgspec.msgpack.decode(longer, type=Partial) == message  # it is the same, in another spelling
    with pytest.raises(PeerError, match=messages.MESSAGE_NOT_CANONICAL):
        decode(longer)


def test_fields_left_to_their_defaults_are_refused() -> None:
    content = Vector(b"12345678")
    assert decode_content(Vector, encode(content)) == content
    with pytest.raises(PeerError, match=messages.MESSAGE_NOT_CANONICAL):
        decode_content(Vector, msgspec.msgpack.encode(["vector", b"12345678"]))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", VERSION + 1),
        ("version", 0),
        ("sender", bytes(31)),
        ("sender", bytes(33)),
        ("receiver", b""),
        ("round", Round(bytes(15), "linear", 1)),
        ("round", Round(bytes(16), "", 1)),
        ("round", Round(bytes(16), "x" * 33, 1)),
        ("round", Round(bytes(16), "linear", -1)),
        ("round", Round(bytes(16), "linear", 2**31)),
        ("sealed", "text"),
        ("sealed", None),
    ],
)
def test_values_outside_their_bounds_are_refused(field: str, value: Any) -> None:
    message = Partial(VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), b"\1")
    with pytest.raises(PeerError, match=messages.DECODE):
        decode(encode(msgspec.structs.replace(message, **{field: value})))


NEAR = MOST_NEIGHBOURS + 1  # a member and its neighbours
BOX, SIGNED, SHARE = Box(2**24, bytes(128)), Signed(2**24, bytes(64)), Share(2**31 - 1, bytes(36))


@pytest.mark.parametrize(
    ("kind", "field", "longest"),
    [
        (Boxes, "boxes", (BOX,) * NEAR),
        (Delivery, "boxes", (BOX,) * NEAR),
        (Delivery, "signatures", (SIGNED,) * NEAR),
        (Delivery, "commitments", bytes(2 * COMMITMENT * NEAR)),
        (Boxes, "commitments", bytes(2 * COMMITMENT * NEAR)),
        (Receipt, "unusable", (2**24,) * NEAR),
        (Participants, "participants", bytes(MOST_DEVICES // 8)),
        (Survivors, "survivors", bytes(MOST_DEVICES // 8)),
        (Survivors, "signatures", (SIGNED,) * NEAR),
        (Agreements, "signatures", (SIGNED,) * NEAR),
        (Roster, "listed", (RosterEntry(2**24, *[bytes(32)] * 4, bytes(64)),) * NEAR),
        (Roster, "proof", (bytes(32),) * 24 * NEAR),
    ],
)
def test_lists_are_as_long_as_the_largest_mask_graph_calls_for_and_no_longer(
    kind: type[Message], field: str, longest: Any
) -> None:
    fields = msgspec.inspect.type_info(kind).fields[4:]  # type: ignore[attr-defined]
    plain = kind(VERSION, Round(bytes(16), "k", 1), bytes(32), bytes(32), *(sample(one.type, size=0) for one in fields))
    good = msgspec.structs.replace(plain, **{field: longest})
    assert decode(encode(good)) == good
    with pytest.raises(PeerError, match=messages.DECODE):
        decode(encode(msgspec.structs.replace(plain, **{field: longest + longest[:1]})))


def test_what_members_seal_fits_with_little_room_to_spare() -> None:
    secrets = len(encode(Secrets(bytes(36), bytes(36)))) + OVERHEAD
    assert 64 < secrets <= 128
    revealed = len(encode(Revealed((SHARE,) * (NEAR - 1), (SHARE,)))) + OVERHEAD
    head = (VERSION, Round(bytes(16), "k", 1), bytes(32), bytes(32))
    assert decode(encode(Reveal(*head, bytes(revealed))))
    with pytest.raises(PeerError, match=messages.DECODE):
        decode(encode(Reveal(*head, bytes(revealed + 64))))
    for boxes in ((Box(1, bytes(129)),), (Box(0, b""),) * 10**6):
        large = Boxes(*head, bytes(64), boxes, b"")
        with pytest.raises(PeerError, match=messages.DECODE):
            decode(encode(large))


def test_what_is_over_the_limit_is_not_even_read() -> None:
    message = Partial(VERSION, Round(bytes(16), "linear", 1), bytes(32), bytes(32), bytes(1000))
    data = encode(message)
    assert decode(data, limit=len(data)) == message
    with pytest.raises(PeerError, match=messages.message_too_long(len(data), limit=len(data) - 1)):
        decode(data, limit=len(data) - 1)
    with pytest.raises(PeerError, match=messages.MESSAGE_TOO_LONG):
        decode(bytes(LIMIT + 1))
    with pytest.raises(PeerError, match=messages.MESSAGE_TOO_LONG):
        decode_content(Vector, bytes(10), limit=9)


def test_a_box_with_the_content_of_another_step_is_refused() -> None:
    with pytest.raises(PeerError, match=messages.WRONG_CONTENT_IN_A_BOX):
        decode_content(Secrets, encode(Vector(bytes(8))))


def test_contents_are_not_messages_and_messages_are_not_contents(samples: list[bytes]) -> None:
    with pytest.raises(PeerError, match=messages.DECODE):
        decode(encode(Vector(bytes(8))))
    for data in samples:
        with pytest.raises(PeerError, match=messages.DECODE):
            decode_content(Vector, data)


@pytest.mark.parametrize("kind", [*MESSAGES, *CONTENTS])
def test_no_message_prints_what_it_holds(kind: type[SecretStruct]) -> None:
    @given(any_of(kind))
    @PATIENT
    def is_quiet(message: SecretStruct) -> None:
        assert repr(message) == str(message) == f"{kind.__name__}(...)"

    is_quiet()


def test_no_text_of_an_error_quotes_the_input() -> None:
    text = "a secret that somebody sent"
    for bad in ([text], {"type": text}, ["keys", text], ["keys", 1, [text.encode()]], text):
        with pytest.raises(PeerError) as found:
            decode(msgspec.msgpack.encode(bad))
        assert text not in str(found.value)
        assert found.value.__suppress_context__


@given(st.integers(1, 200), st.data())
@PATIENT
def test_bitmaps_come_back_as_they_were(size: int, data: st.DataObject) -> None:
    chosen = data.draw(st.frozensets(st.integers(0, size - 1)))
    assert positions(bitmap(chosen, size=size), size=size) == chosen


@given(st.integers(1, 70), st.binary(max_size=10))
@PATIENT
def test_bits_are_a_bitmap_in_one_spelling_only(size: int, bits: bytes) -> None:
    found = result(positions, bits, size=size)
    fits = len(bits) == (size + 7) // 8 and not int.from_bytes(bits, "little") >> size
    assert bitmap(found, size=size) == bits if fits else found is Fault.DECODE
