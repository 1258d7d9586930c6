"""Boxes: authenticated encryption end to end. Whoever relays one cannot read it, change it, or move it elsewhere.

The key of a box is derived from the two parties' agreement and from the whole header: version, round, sender, receiver,
step and the hash of the statement, which holds roster, parameters and H(V). For a pair of round keys a header is sealed
under once, or again with the same content, since a party draws all its entropy when it is made. So each key seals one
text, and its nonce may be zero.
"""

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import encode
from prirec.protocols.messages import Part
from prirec.protocols.statements import BoxHeader
from prirec.sharing.keys import derive

OVERHEAD = 16
_NONCE = bytes(12)


def seal(agreed: bytes, header: BoxHeader, content: Part) -> bytes:
    """The content, readable by the two parties that agreed."""
    bound = encode(header)
    return AESGCM(derive(agreed, "box", bound)).encrypt(_NONCE, encode(content), bound)


def unseal(agreed: bytes, header: BoxHeader, sealed: bytes) -> bytes:
    """What was sealed under exactly this header, or a PeerError."""
    bound = encode(header)
    try:
        return AESGCM(derive(agreed, "box", bound)).decrypt(_NONCE, sealed, bound)
    except InvalidTag:
        raise PeerError(
            Fault.AUTH, "a box does not open: it is not from this party, or its sender holds another roster, V or terms"
        ) from None
