"""One vector: an operation of the sharing layer, its inputs, and what the reference answers.

In the files bytes are hex, and ring words, field elements and reals are decimal text, since not every reader of JSON
keeps 64 bits.
"""

from collections.abc import Callable
from typing import Any

from vectors import reference as ref

SECRET = bytes(range(32))
SEED = bytes(range(100, 132))

OPERATIONS: dict[str, Callable[..., Any]] = {
    "encode": ref.encode,
    "decode": ref.decode,
    "additive_split": ref.additive_split,
    "additive_combine": ref.additive_combine,
    "shamir_split": ref.shamir_split,
    "shamir_combine": ref.shamir_combine,
    "stretch": ref.stretch,
    "derive": ref.derive,
    "agreement_public": ref.agreement_public,
    "agree": ref.agree,
    "signing_public": ref.signing_public,
    "sign": ref.sign,
    "verify": ref.verify,
}
Vector = dict[str, Any]


def vector(claim: str, operation: str, *, printed: bytes | None = None, **inputs: Any) -> Vector:
    """One entry: the reference's answer, or its refusal; it must be the one `printed` in a standard, if any."""
    entry: Vector = {"claim": claim, "operation": operation, "inputs": plain(inputs)}
    try:
        output = OPERATIONS[operation](**inputs)
    except ref.RefusedError as refusal:
        error = "UsageError" if refusal.fault is None else "PeerError"
        return entry | {"error": error} | ({"fault": refusal.fault} if refusal.fault else {})
    if printed is not None and output != printed:
        raise ValueError(f"the reference does not give what is printed: {claim}")
    return entry | {"output": plain(output)}


def plain(value: Any) -> Any:
    """Bytes as hex, numbers as text, whatever they stand in."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if value is None or isinstance(value, str) else repr(value)
