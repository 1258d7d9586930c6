"""Agreements and signatures that were worked out before, for tests that take the same keys through thousands of rounds:
each is worked out once for each input, by the same code, and remembered."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from prirec.sharing import keys
from prirec.sharing.keys import AgreementKey, SigningKey


@cache
def _verified(public: bytes, signature: bytes, message: bytes) -> None:
    Ed25519PublicKey.from_public_bytes(public).verify(signature, message)  # what it raises is never remembered


class _Public:
    """In the place of the library's public key."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    @classmethod
    def from_public_bytes(cls, public: bytes) -> "_Public":
        return cls(public)

    def verify(self, signature: bytes, message: bytes) -> None:
        _verified(self.public, signature, message)


def _by_key(method: Callable[[Any, bytes], bytes]) -> Callable[[Any, bytes], bytes]:
    """What a secret key makes of some bytes; its public key tells which it is."""
    known: dict[tuple[bytes, bytes], bytes] = {}

    def remembered(self: Any, given: bytes) -> bytes:
        at = (self.public, given)
        if at not in known:
            known[at] = method(self, given)
        return known[at]

    return remembered


def remember(patch: pytest.MonkeyPatch) -> None:
    """From here on, until the patch is taken back."""
    _verified.cache_clear()
    patch.setattr(keys, "Ed25519PublicKey", _Public)
    patch.setattr(AgreementKey, "agree", _by_key(AgreementKey.agree))
    patch.setattr(SigningKey, "sign", _by_key(SigningKey.sign))
