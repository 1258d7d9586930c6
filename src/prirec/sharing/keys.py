"""Keys: X25519 agreement, Ed25519 signatures, and HKDF-SHA256 that binds a derived key to everything it is meant for.

Agreement: two parties reach the same 32 bytes, which nobody else can compute (the Diffie-Hellman assumption); a peer's
key that would force a known result is refused. The bytes are not uniform, so they go through `derive` before use.
Derivation: the info of HKDF spells out every field with its type and length, and so can be read back in one way only:
two lists of fields that differ anywhere give independent keys.
Signatures: nobody signs for a key without its secret, and a public key of low order, under which one signature holds
for every message, is refused. Whatever is wrong with a key or a signature, the peer reads the same words.
"""

from functools import lru_cache
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from prirec.errors import Fault, PeerError, UsageError

KEY = 32  # bytes of every key here, secret, public or derived

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
    info = b"".join(map(_field_bytes, fields))
    return HKDF(algorithm=SHA256(), length=KEY, salt=None, info=info).derive(secret)


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
