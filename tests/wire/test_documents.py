"""Public documents are what their names say, or nothing."""

import msgspec
import numpy as np
import pytest

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import encode
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import (
    EARLIER,
    MOST_NAMES,
    EarlierVersionError,
    Head,
    Manifest,
    Model,
    Names,
    Page,
    RegionLine,
    Roster,
    address,
    array,
    octets,
    read,
    written,
)
from support import messages

MODEL = Model(bytes(32), 3, octets(np.array([1.5, -2.0]), np.float32))


def test_a_document_comes_back_under_its_name():
    name, body = written(MODEL)
    assert read(Model, body, name=name) == MODEL
    assert len(name) == 32


@pytest.mark.parametrize("spoil", [lambda b: b + b"\0", lambda b: b[:-1], lambda b: b"", lambda b: b[:-1] + b"\1"])
def test_other_bytes_than_those_that_were_asked_for_are_refused(spoil):
    name, body = written(MODEL)
    with pytest.raises(PeerError) as refused:
        read(Model, spoil(body), name=name)
    assert refused.value.fault is Fault.DECODE


def test_a_document_of_another_kind_is_refused_even_under_its_own_name():
    name, body = written(Manifest(5, (RegionLine(0, bytes(32)),)))
    with pytest.raises(PeerError, match=messages.DOCUMENT_OF_ANOTHER_KIND):
        read(Model, body, name=name)


@pytest.mark.parametrize("body", [b"", b"\x90", b"\xff" * 40, b"\x92\xb3prirec shared model\x03"])
def test_garbage_under_its_own_name_is_refused(body):
    with pytest.raises(PeerError) as refused:
        read(Model, body, name=address(body))
    assert refused.value.fault is Fault.DECODE


@pytest.mark.parametrize("wrong", [b"", b"short", bytes(33)])
def test_names_are_held_to_their_size(wrong):
    name, body = written(Roster((wrong,)))
    with pytest.raises(PeerError):
        read(Roster, body, name=name)


def test_a_document_of_an_earlier_version_is_said_to_be_one():
    for kind in EARLIER:
        body = msgspec.msgpack.encode([kind, 1, bytes(16), b"whatever it had"])
        with pytest.raises(EarlierVersionError, match=messages.DOCUMENT_OF_AN_EARLIER_VERSION):
            read(Model, body, name=address(body))
    assert not EARLIER & {type(one).__struct_config__.tag for one in (MODEL, Roster(()), Manifest(5, ()))}


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int32])
def test_arrays_come_back_with_the_same_bits(kind):
    values = np.arange(12).reshape(3, 4).astype(kind)
    back = array(octets(values, kind), kind, (-1, 4))
    assert back.dtype == kind
    assert back.tobytes() == values.tobytes()
    back[0, 0] = 7  # a copy, to write in


def test_an_array_of_another_size_is_refused():
    with pytest.raises(PeerError, match=messages.ARRAY_OF_ANOTHER_SIZE):
        array(bytes(20), np.float64, (-1, 2))


# What a helper signs


def test_a_co_signature_holds_for_its_helper_and_deployment_alone():
    helper, deployment = SigningKey(bytes([5]) * 32), bytes([9]) * 16
    signed = Head(3, bytes([1]) * 32).cosigned(deployment=deployment, time=2**31, identity=helper)
    signed.verify(helper.public, deployment=deployment)
    page = Page((), signed)
    assert msgspec.msgpack.decode(encode(page), type=Page) == page
    other = msgspec.structs.replace(signed.statement, time=2**31 + 1)
    for wrong, key, of in (
        (signed, SigningKey(bytes([6]) * 32).public, deployment),
        (signed, helper.public, bytes(16)),
        (msgspec.structs.replace(signed, statement=other), helper.public, deployment),
    ):
        with pytest.raises(PeerError):
            wrong.verify(key, deployment=of)


def test_a_list_of_names_has_at_least_one_and_is_not_long():
    for many in (1, MOST_NAMES):
        name, body = written(Names((bytes(32),) * many))
        assert len(read(Names, body, name=name).names) == many
    for many in (0, MOST_NAMES + 1):
        name, body = written(Names((bytes(32),) * many))
        with pytest.raises(PeerError):
            read(Names, body, name=name)
