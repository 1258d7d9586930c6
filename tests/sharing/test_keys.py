"""Keys: both ends agree, nobody else signs, a derived key is bound to every field, and secrets do not print."""

from itertools import combinations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.errors import Fault, PeerError, UsageError
from prirec.sharing.keys import KEY, AgreementKey, SigningKey, derive, refuse_low_order, seal_box, verify
from support import messages
from support.hypothesis_settings import FEW, PATIENT
from vectors import cases_keys, reference

SECRETS = st.binary(min_size=KEY, max_size=KEY)
FIELDS = st.lists(st.one_of(st.binary(max_size=9), st.text("aé市\0", max_size=9), st.integers()), max_size=5)
ONE, TWO = bytes(range(32)), bytes(range(32, 64))


@PATIENT
@given(SECRETS, SECRETS)
def test_both_ends_agree_on_the_same_secret(one, two):
    first, second = AgreementKey(one), AgreementKey(two)
    assert first.agree(second.public) == second.agree(first.public)
    assert len(first.agree(second.public)) == len(first.public) == KEY


@FEW
@given(SECRETS, SECRETS)
def test_agreement_equals_the_ladder_of_rfc_7748(one, two):
    peer = reference.agreement_public(two)
    assert AgreementKey(two).public == peer
    assert AgreementKey(one).agree(peer) == reference.agree(one, peer=peer)


@settings(FEW, max_examples=8)
@given(SECRETS, st.binary(max_size=40))
def test_signatures_equal_rfc_8032_and_hold(secret, message):
    key = SigningKey(secret)
    signature = key.sign(message)
    assert (key.public, signature) == (reference.signing_public(secret), reference.sign(secret, message=message))
    assert len(signature) == 64
    verify(key.public, signature=signature, message=message)
    reference.verify(key.public, signature=signature, message=message)


@PATIENT
@given(st.data())
def test_any_bit_flipped_anywhere_breaks_a_signature(data):
    key, message = SigningKey(ONE), b"roster and parameters"
    parts = [key.public, key.sign(message), message]
    which = data.draw(st.integers(0, 2))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    parts[which] = (int.from_bytes(parts[which], "little") ^ 1 << bit).to_bytes(len(parts[which]), "little")
    with pytest.raises(PeerError):
        verify(parts[0], signature=parts[1], message=parts[2])


def refusals() -> list[PeerError]:
    """One for each way in which a key or a signature can be wrong."""
    key = SigningKey(ONE)
    tries = [
        lambda: AgreementKey(ONE).agree(bytes(KEY)),
        lambda: AgreementKey(ONE).agree(b"short"),
        lambda: verify(key.public, signature=key.sign(b"a"), message=b"b"),
        lambda: verify(SigningKey(TWO).public, signature=key.sign(b"a"), message=b"a"),
        lambda: verify(key.public[:31], signature=key.sign(b"a"), message=b"a"),
        lambda: verify(key.public, signature=key.sign(b"a")[:63], message=b"a"),
        lambda: verify((1).to_bytes(KEY, "little"), signature=bytes(64), message=b"a"),
    ]
    caught = []
    for attempt in tries:
        with pytest.raises(PeerError) as refusal:
            attempt()
        caught.append(refusal.value)
    return caught


def test_every_refusal_reads_the_same_and_has_no_cause_to_print():
    caught = refusals()
    assert {str(error) for error in caught} == {"AUTH: a key or a signature does not hold"}
    assert {error.fault for error in caught} == {Fault.AUTH}
    assert all(error.__suppress_context__ and error.__cause__ is None for error in caught)


LOW_ORDER = [entry for entry in cases_keys.signatures() if "low order" in entry["claim"]]


@pytest.mark.parametrize("entry", LOW_ORDER, ids=lambda entry: entry["claim"])
def test_a_signature_that_needs_no_secret_holds_for_the_library_and_not_for_us(entry):
    public, signature, message = (bytes.fromhex(entry["inputs"][part]) for part in ("public", "signature", "message"))
    Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    with pytest.raises(PeerError, match=messages.AUTH):
        verify(public, signature=signature, message=message)


def test_all_points_of_low_order_are_refused_however_they_are_spelt():
    """The eight multiples of a point of order 8; a spelling may add p to y where that still fits, and any sign."""
    generator = reference.unpacked(cases_keys.low_order_y().to_bytes(KEY, "little"))
    heights = {reference.times(k, generator)[1] for k in range(1, 9)}
    assert len(heights) == 5
    spelt = {y + extra for y in heights for extra in (0, reference.Q) if y + extra < 2**255}
    assert len(spelt) == 7
    signature = reference.packed(reference.BASE) + (1).to_bytes(32, "little")
    for number in spelt | {number + 2**255 for number in spelt}:
        public = number.to_bytes(KEY, "little")
        message = cases_keys.signature_under(public)["message"]
        with pytest.raises(PeerError):
            verify(public, signature=signature, message=message)


@PATIENT
@given(FIELDS, FIELDS)
def test_different_fields_give_different_keys_and_the_same_the_same(one, two):
    same = [(type(field), field) for field in one] == [(type(field), field) for field in two]
    assert (derive(ONE, *one) == derive(ONE, *two)) is same


def test_fields_that_look_alike_give_different_keys():
    lists = [(), ("",), (b"",), (0,), ("a", "b"), ("ab",), ("ab", ""), ("", "ab"), (b"ab",), ("a", b"b"), (b"a", "b")]
    lists += [(1,), (-1,), (255,), (-256,), ("1",), (b"\x01",), (1, 2), (2, 1), (258,), (2**64,), (-(2**64),)]
    lists += [(b"s" + bytes(7) + b"\x02ab",), ("\udc80",), ("é",), ("e\u0301",)]
    keys = [derive(ONE, *fields) for fields in lists]
    assert all(len(key) == KEY for key in keys)
    assert all(one != two for one, two in combinations(keys, 2))


def test_another_secret_gives_another_key():
    assert derive(ONE, "mask", 1) != derive(TWO, "mask", 1)
    assert derive(ONE, "mask", 1) != derive(ONE + b"\0", "mask", 1)


@FEW
@given(FIELDS)
def test_derivation_equals_the_reference(fields):
    kind = {bytes: "bytes", str: "text", int: "number"}
    assert derive(TWO, *fields) == reference.derive(TWO, fields=[(kind[type(field)], field) for field in fields])


@pytest.mark.parametrize("field", [True, None, 0.5, bytearray(b"a"), ("a",)])
def test_a_field_is_bytes_text_or_a_number(field):
    with pytest.raises(UsageError, match=messages.FIELDS_OF_A_KEY_INVALID):
        derive(ONE, "mask", field)


@pytest.mark.parametrize("secret", [b"", bytes(15), "0" * 32, bytearray(32)])
def test_a_secret_that_could_be_guessed_is_refused(secret):
    with pytest.raises(UsageError, match=messages.secret_too_short(16)):
        derive(secret, "mask")


@pytest.mark.parametrize("kind", [AgreementKey, SigningKey])
@pytest.mark.parametrize("secret", [b"", bytes(31), bytes(33), "0" * 32])
def test_a_secret_key_is_thirty_two_bytes(kind, secret):
    with pytest.raises(UsageError, match=messages.secret_key_length(32)):
        kind(secret)


@pytest.mark.parametrize("kind", [AgreementKey, SigningKey])
def test_a_key_does_not_print_its_secret(kind):
    key = kind(ONE)
    for text in (repr(key), str(key), f"{key}", repr([key])):
        assert kind.__name__ in text
        assert ONE.hex() not in text
        assert repr(ONE)[2:10] not in text
    assert not hasattr(key, "__dict__")


LOW_ORDER_U = [
    0,
    1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    2**255 - 20,
    2**255 - 19,
    2**255 - 18,
]


@pytest.mark.parametrize("u", LOW_ORDER_U)
@pytest.mark.parametrize("top_bit", [0, 1])
def test_the_keys_refused_at_sight_are_those_that_cannot_be_agreed_with(u, top_bit):
    public = (u | top_bit << 255).to_bytes(32, "little")
    for refuse in (refuse_low_order, AgreementKey(bytes(32)).agree):
        with pytest.raises(PeerError, match=messages.AUTH):
            refuse(public)


def test_keys_that_can_be_agreed_with_are_not_refused_at_sight():
    for seed in range(50):
        refuse_low_order(AgreementKey(bytes([seed] * 32)).public)
    for nearby in (2, 3, 2**255 - 21):
        public = nearby.to_bytes(32, "little")
        refuse_low_order(public)
        assert AgreementKey(bytes(32)).agree(public)
    with pytest.raises(PeerError, match=messages.AUTH):
        refuse_low_order(bytes(31))


# Boxes (HPKE)


def kinds(fields):
    """Fields as the reference takes them."""
    names = {bytes: "bytes", str: "text", int: "number"}
    return [(names[type(field)], field) for field in fields]


def test_the_reference_gives_the_box_that_rfc_9180_prints():
    """Appendix A.1.1: base mode, X25519, HKDF-SHA256, AES-128-GCM, the first message."""
    box = reference.seal_box(
        bytes.fromhex("4265617574792069732074727574682c20747275746820626561757479"),
        ephemeral=bytes.fromhex("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736"),
        public=bytes.fromhex("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d"),
        info=bytes.fromhex("4f6465206f6e2061204772656369616e2055726e"),
        aad=bytes.fromhex("436f756e742d30"),
    )
    assert box[:32].hex() == "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431"
    printed = "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a"
    assert box[32:].hex() == printed


@FEW
@given(SECRETS, SECRETS, st.binary(max_size=50), FIELDS)
def test_boxes_open_as_those_of_the_reference_do(secret, ephemeral, content, fields):
    key = AgreementKey(secret)
    assert reference.open_box(secret, box=seal_box(key.public, content, *fields), fields=kinds(fields)) == content
    box = reference.seal_box(content, ephemeral=ephemeral, public=key.public, info=reference.info_of(kinds(fields)))
    assert key.open_box(box, *fields) == content
    assert len(box) == len(content) + 48


def test_a_box_opens_with_its_own_key_and_fields_alone():
    box = seal_box(AgreementKey(ONE).public, b"content", "leader", 7)
    assert AgreementKey(ONE).open_box(box, "leader", 7) == b"content"
    assert box != seal_box(AgreementKey(ONE).public, b"content", "leader", 7)
    attempts = [
        (TWO, box, ("leader", 7)),
        (ONE, box, ("helper", 7)),
        (ONE, box, ("leader",)),
        (ONE, b"", ("leader", 7)),
    ]
    attempts += [(ONE, box[:at] + bytes([box[at] ^ 1]) + box[at + 1 :], ("leader", 7)) for at in range(len(box))]
    attempts += [(ONE, box[:size], ("leader", 7)) for size in range(len(box))]
    for secret, attempt, fields in attempts:
        with pytest.raises(PeerError, match=messages.AUTH):
            AgreementKey(secret).open_box(attempt, *fields)


@pytest.mark.parametrize("public", [bytes(32), (1).to_bytes(32, "little"), bytes(31)])
def test_no_box_is_sealed_to_a_key_that_is_none(public):
    with pytest.raises(PeerError, match=messages.AUTH):
        seal_box(public, b"content")
