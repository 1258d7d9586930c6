"""One vector: an operation of the layers of sharing, proofs and protocols, its inputs, and what the reference answers.

In the files bytes are hex, and ring words, field elements and reals are decimal text, since not every reader of JSON
keeps 64 bits: schema.json.
"""

from collections.abc import Callable
from typing import Any

from prirec.errors import PeerError, UsageError
from prirec.proofs.parameters import Parameters
from vectors import reference as ref
from vectors import (
    reference_campaigns,
    reference_contributions,
    reference_documents,
    reference_envelopes,
    reference_features,
    reference_ledger,
    reference_model,
    reference_norm,
    reference_popularity,
)
from vectors import reference_messages as wire
from vectors import reference_proofs as plain_pine

SECRET = bytes(range(32))
SEED = bytes(range(100, 132))


def report(*, parameters: dict[str, Any], vector: list[int], nonce: bytes, randomness: bytes) -> list[bytes] | None:
    found = plain_pine.shard(Parameters(**parameters), vector, nonce, randomness)
    return None if found is None else list(found)


def prepared(parameters: dict[str, Any], key: bytes, nonce: bytes, shares: dict[str, bytes]) -> list[Any]:
    p, public = Parameters(**parameters), shares["public"]
    both = enumerate((shares["leader"], shares["helper"]))
    return [plain_pine.prepare(p, key, at, nonce=nonce, public=public, share=share) for at, share in both]


def verifier_shares(*, parameters: dict[str, Any], key: bytes, nonce: bytes, **shares: bytes) -> list[bytes]:
    return [share for _, share in prepared(parameters, key, nonce, shares)]


def accept(*, parameters: dict[str, Any], key: bytes, nonce: bytes, **shares: bytes) -> list[list[int]]:
    """Both operators' shares of the vector."""
    states, sent = zip(*prepared(parameters, key, nonce, shares), strict=True)
    message = plain_pine.combine(Parameters(**parameters), sent)
    return [plain_pine.finish(state, message) for state in states]


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
    "open_box": ref.open_box,
    "report": report,
    "verifier_shares": verifier_shares,
    "accept": accept,
    "message": wire.message,
    "read": wire.read,
    "task": wire.task,
    "report_signed": wire.report_signed,
    "box_fields": wire.box_fields,
    "verification_key": wire.verification_key,
    "accepted": wire.accepted,
    "closed": wire.closed,
    "commitment": wire.commitment,
    "sum_signed": wire.sum_signed,
    "envelope": reference_envelopes.envelope,
    "read_asked": reference_envelopes.read_asked,
    "read_answer": reference_envelopes.read_answer,
    "document": reference_documents.document,
    "read_document": reference_documents.read_document,
    "log": reference_documents.log,
    "release": reference_campaigns.release,
    "window_bound": reference_campaigns.window_bound,
    "extended": reference_campaigns.extended,
    "co_signed": reference_campaigns.co_signed,
    "in_force": reference_campaigns.in_force,
    "rotated": reference_campaigns.rotated,
    "person": reference_features.person,
    "read_encoding": reference_features.read_encoding,
    "records": reference_features.records,
    "negatives": reference_features.negatives,
    "word_bucket": reference_features.word_bucket,
    "rows": reference_model.rows,
    "own_model": reference_model.own_model,
    "recommend": reference_model.recommend,
    "log_delta": reference_ledger.log_delta,
    "epsilon": reference_ledger.epsilon_of,
    "price": reference_ledger.price,
    "admit": reference_ledger.admit,
    "how_many_more": reference_ledger.how_many_more,
    "visits_contribution": reference_contributions.visits_contribution,
    "moments_contribution": reference_contributions.moments_contribution,
    "gradient_contribution": reference_contributions.gradient_contribution,
    "quality_contribution": reference_contributions.quality_contribution,
    "measured": reference_model.measured,
    "held_out": lambda *, places, **rest: [int(reference_features.held_out(place=one, **rest)) for one in places],
    "own_part": reference_popularity.own_part,
    "own_average": reference_popularity.own_average,
    "own_means": reference_contributions.own_means,
    "key_stream": ref.short_key_stream,
    "length": reference_norm.length,
    "within_norm": reference_norm.within_norm,
    "unit_vector": reference_norm.unit_vector,
    "clipped": reference_norm.clipped,
    "scaled": reference_norm.scaled,
}
Vector = dict[str, Any]


def vector(
    claim: str, operation: str, *, printed: bytes | None = None, flags: tuple[str, ...] = (), within: str = "",
    **inputs: Any,
) -> Vector:  # fmt: skip
    """One entry: the reference's answer, or its refusal; it must be the one `printed` in a standard, if any."""
    entry: Vector = {"claim": claim, "operation": operation}
    entry |= {"flags": list(flags)} if flags else {}
    entry |= {"within": within} if within else {}
    entry |= {"inputs": plain(inputs)}
    try:
        output = OPERATIONS[operation](**inputs)
    except (ref.RefusedError, PeerError, UsageError) as refusal:
        fault = getattr(refusal, "fault", None)
        name = getattr(refusal, "name", "UsageError")
        return entry | ({"error": "PeerError", "fault": str(fault)} if fault else {"error": name})
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
