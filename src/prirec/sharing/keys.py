"""Keys: agreement (X25519), signatures (Ed25519), derivation (HKDF-SHA256), and key streams for pads and masks.

Agreement: two parties reach the same 32 bytes, which nobody else can compute (the Diffie-Hellman assumption); a peer's
key that would force a known result is refused. The bytes are not uniform, so they go through `derive` before use.
Derivation: the info of HKDF spells out every field with its type and length, and so can be read back in one way only:
two lists of fields that differ anywhere give independent keys.
Signatures: nobody signs for a key without its secret, and a public key of low order, under which one signature holds
for every message, is refused. Whatever is wrong with a key or a signature, the peer reads the same words.
Boxes: HPKE (RFC 9180) in base mode, X25519, HKDF-SHA256, AES-128-GCM. Anybody can seal a box to a public key; only the
holder of its secret opens it, and only with the same fields. Who sealed it, a signature must say. The library takes one
message for each box and no associated data; all that a box is bound to is in the info, which binds as well.
Pads and masks: the key stream of AES-256 in counter mode, read as ring words. Both ends of a pair hold the same seed,
hence the same words, and one adds what the other subtracts. To whoever does not hold the seed, the words cannot be told
from uniform ones, as far as AES-256 is a pseudorandom permutation; b blocks give at most b² / 2^129 away, since a key
stream never repeats a block. The key is the whole seed and the counter always starts alike, so a seed serves ONE
purpose in ONE round: seeds come from `derive`.
"""

from functools import lru_cache
from typing import Any, Final

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import DTypeLike

from prirec.errors import Fault, PeerError, UsageError
from prirec.types import RingArray

KEY = 32  # bytes of every key here, secret, public or derived
BOX = 48  # bytes that a box is longer than its content

_HPKE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)

_LEAST_SECRET = 16  # bytes: fewer could be guessed
_SIGN = 1 << 255  # the bit of an Ed25519 key that is not part of y
_FIELD = 2**255 - 19
_ORDER_EIGHT = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826  # y of two points; -y of two more
# y of all points of order 1, 2, 4 and 8, the spellings of 0 and 1 beyond the field included
_LOW_ORDER = frozenset({0, 1, _FIELD - 1, _FIELD, _FIELD + 1, _ORDER_EIGHT, _FIELD - _ORDER_EIGHT})

# u of all points of order 1, 2, 4 and 8 on Curve25519 and its twist, and the spellings of 0 and 1 beyond the field
_LOW_ORDER_U = frozenset(
    {
        *(0, 1, _FIELD - 1, _FIELD, _FIELD + 1),
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    }
)


class AgreementKey:
    """An X25519 key pair. Both ends of `agree` learn the same secret; the wire sees public keys only."""

    __slots__ = ("_secret", "public")

    def __init__(self, secret: bytes) -> None:
        self._secret: Final = X25519PrivateKey.from_private_bytes(_checked(secret))
        self.public: Final = self._secret.public_key().public_bytes_raw()

    def agree(self, peer: bytes) -> bytes:
        """The 32 bytes shared with the holder of a public key; PeerError AUTH if it is malformed or of low order."""
        try:
            return self._secret.exchange(_parsed(peer))
        except ValueError:
            raise _refused() from None

    def open_box(self, box: bytes, *fields: bytes | str | int) -> bytes:
        """What was sealed to this key with exactly these fields; PeerError AUTH for any other bytes."""
        try:
            return _HPKE.decrypt(box, self._secret, _spelled_out(fields))
        except InvalidTag:
            raise _refused() from None

    def __repr__(self) -> str:
        return "AgreementKey(secret)"


class SigningKey:
    """An Ed25519 key pair: whoever holds the public key can check what was signed, and nobody else can sign it."""

    __slots__ = ("_secret", "public")

    def __init__(self, secret: bytes) -> None:
        self._secret: Final = Ed25519PrivateKey.from_private_bytes(_checked(secret))
        self.public: Final = self._secret.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The signature, 64 bytes; the same for the same message."""
        return self._secret.sign(message)

    def __repr__(self) -> str:
        return "SigningKey(secret)"


def verify(public: bytes, *, signature: bytes, message: bytes) -> None:
    """Silent if the holder of `public` signed exactly this message; otherwise PeerError AUTH."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        if int.from_bytes(public, "little") & ~_SIGN in _LOW_ORDER:
            raise InvalidSignature
        key.verify(signature, message)
    except (InvalidSignature, ValueError):
        raise _refused() from None


def derive(secret: bytes, *fields: bytes | str | int) -> bytes:
    """HKDF-SHA256 without salt: 32 bytes for exactly this list of fields; say in them what the key is for."""
    if not isinstance(secret, bytes) or len(secret) < _LEAST_SECRET:
        raise UsageError(f"keys are derived from a secret of at least {_LEAST_SECRET} bytes")
    return HKDF(algorithm=SHA256(), length=KEY, salt=None, info=_spelled_out(fields)).derive(secret)


def seal_box(public: bytes, content: bytes, *fields: bytes | str | int) -> bytes:
    """A box for the holder of an X25519 key, 48 bytes longer than its content; say in the fields what it is. The key
    inside is new for each box, from the operating system's entropy; PeerError AUTH for a key of low order."""
    try:
        return _HPKE.encrypt(content, _parsed(public), _spelled_out(fields))
    except ValueError:
        raise _refused() from None


def _spelled_out(fields: tuple[bytes | str | int, ...]) -> bytes:
    return b"".join(map(_field_bytes, fields))


def _field_bytes(field: bytes | str | int) -> bytes:
    """One field as type, length (8 bytes, big endian) and content; an int as its shortest two's complement."""
    if isinstance(field, bytes):
        kind, content = b"b", field
    elif isinstance(field, str):
        kind, content = b"s", field.encode("utf-8", "surrogatepass")
    elif isinstance(field, int) and not isinstance(field, bool):
        bits = (field if field >= 0 else ~field).bit_length()
        kind, content = b"i", field.to_bytes(bits // 8 + 1, "big", signed=True)
    else:
        raise UsageError("the fields that a key is bound to are bytes, text or whole numbers")
    return kind + len(content).to_bytes(8, "big") + content


@lru_cache(maxsize=4096)  # a collector agrees with the same survivors for everyone who was lost
def _parsed(public: bytes) -> X25519PublicKey:
    return X25519PublicKey.from_public_bytes(public)


def refuse_low_order(public: bytes) -> None:
    """PeerError AUTH for an X25519 key with which `agree` would be refused, at a tenth of the cost of trying."""
    if len(public) != KEY or int.from_bytes(public, "little") & ~_SIGN in _LOW_ORDER_U:
        raise _refused()


def _checked(secret: bytes) -> bytes:
    if not isinstance(secret, bytes) or len(secret) != KEY:
        raise UsageError(f"a secret key is {KEY} bytes")
    return secret


def _refused() -> PeerError:
    return PeerError(Fault.AUTH, "a key or a signature does not hold")


# Pads and masks

SEED = 32  # bytes: the whole key of AES-256
_START = modes.CTR(bytes(15) + b"\2")  # where AES-GCM begins its key stream under the nonce 0
_NONCE = bytes(12)
_ZEROS = memoryview(bytes(2**16))  # a fresh page of zeros for every page of a long stream would cost more than AES
_LITTLE_ENDIAN: dict[Any, np.dtype[Any]] = {np.dtype(np.uint64): np.dtype("<u8"), np.dtype(np.uint32): np.dtype("<u4")}


def stretch(seed: bytes, count: int, dtype: DTypeLike = np.uint64) -> RingArray:
    """`count` ring words from a seed of SEED bytes; a longer stream begins with the shorter one."""
    ring = np.dtype(dtype)
    little = _LITTLE_ENDIAN.get(ring)
    if little is None or count < 0:
        raise UsageError("a seed is stretched to no fewer than 0 words, of the ring of 64 or 32 bits")
    if not isinstance(seed, bytes) or len(seed) != SEED:
        raise UsageError(f"a seed is {SEED} bytes, all of them secret")
    octets = count * ring.itemsize
    if octets <= len(_ZEROS):
        # the same stream as _fill's, in one call, for less than half the time; the tag at its end is left
        stream = AESGCM(seed).encrypt(_NONCE, _ZEROS[:octets], None)
        short: RingArray = np.frombuffer(stream, little, count).astype(ring)
        return short
    words = np.empty(octets, dtype=np.uint8)
    _fill(words.data, seed)
    native: RingArray = words.view(little).astype(ring, copy=False)
    return native


def _fill(stream: memoryview, seed: bytes) -> None:
    encryptor = Cipher(algorithms.AES(seed), _START).encryptor()
    for start in range(0, len(stream), len(_ZEROS)):
        piece = stream[start : start + len(_ZEROS)]
        encryptor.update_into(_ZEROS[: len(piece)], piece)
