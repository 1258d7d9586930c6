"""Sharing, proofs and messages give what a reference in plain integers gives, and refuse what it refuses, for the same
reason."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

import jsonschema
import msgspec
import numpy as np
import pytest

from prirec.errors import PrirecError
from prirec.privacy import norm
from prirec.proofs import pine
from prirec.proofs.parameters import Parameters
from prirec.protocols import party, two_operators
from prirec.protocols.codec import decode as decode_message
from prirec.protocols.codec import decode_with, digest
from prirec.protocols.codec import encode as encode_message
from prirec.protocols.messages import AnyMessage, Report, Round, step
from prirec.sharing import keys, secret_sharing
from prirec.sharing.fixed_point import FixedPoint
from prirec.sharing.keys import AgreementKey, SigningKey, derive, verify
from prirec.wire import documents, operators
from vectors import (
    make,
    operations_campaigns,
    operations_contributions,
    operations_features,
    operations_ledger,
    operations_model,
)

HERE = Path(__file__).parent
FILES = [HERE / name for name in make.FILES]
VECTORS = [(file.stem, entry) for file in FILES for entry in json.loads(file.read_text(encoding="utf-8"))]
BAD = [(stem, entry) for stem, entry in VECTORS if "error" in entry]
GOOD = [(stem, entry) for stem, entry in VECTORS if "error" not in entry]
RING = {"64": np.uint64, "32": np.uint32, "16": np.uint16}
FIELD = {"bytes": bytes.fromhex, "text": str, "number": int, "fraction": float}


def named(vectors: list[tuple[str, dict[str, Any]]]) -> list[Any]:
    return [pytest.param(entry, id=f"{stem}: {entry['claim']}") for stem, entry in vectors]


def words(texts: list[Any], dtype: type) -> np.ndarray:
    return np.array([[int(word) for word in row] if isinstance(row, list) else int(row) for row in texts], dtype=dtype)


def rows(texts: list[Any], dtype: type, *, width: int) -> np.ndarray:
    """Rows of words; where there are none, they are still rows."""
    return words(texts, dtype) if texts else np.empty((0, width), dtype=dtype)


def plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, np.ndarray):
        return [plain(item) for item in value.tolist()]
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else repr(value)


def encode(i: dict[str, Any]) -> np.ndarray:
    sizes = {name: int(i[name]) for name in ("summands", "fraction_bits", "ring_bits")}
    return FixedPoint(bound=float(i["bound"]), **sizes).encode(np.array([float(value) for value in i["values"]]))


def decode(i: dict[str, Any]) -> np.ndarray:
    sizes = {name: int(i[name]) for name in ("fraction_bits", "ring_bits")}
    return FixedPoint(summands=1, bound=1.0, **sizes).decode(words(i["words"], RING[i["ring_bits"]]))


def additive_split(i: dict[str, Any]) -> np.ndarray:
    secret = words(i["secret"], RING[i["ring_bits"]])
    return secret_sharing.additive_split(
        secret, pads=rows(i["pads"], secret.dtype.type, width=secret.size), own=int(i["own"])
    )


def additive_combine(i: dict[str, Any]) -> np.ndarray:
    return secret_sharing.additive_combine(rows(i["shares"], RING[i["ring_bits"]], width=1))


def shamir_split(i: dict[str, Any]) -> np.ndarray:
    secret, seed = bytes.fromhex(i["secret"]), bytes.fromhex(i["seed"])
    return secret_sharing.shamir_split(
        secret, threshold=int(i["threshold"]), points=words(i["points"], np.int64), seed=seed
    )


def shamir_combine(i: dict[str, Any]) -> bytes:
    return secret_sharing.shamir_combine(words(i["points"], np.int64), rows(i["shares"], np.uint32, width=9))


def stretch(i: dict[str, Any]) -> np.ndarray:
    return keys.stretch(bytes.fromhex(i["seed"]), int(i["count"]), RING[i["ring_bits"]])


def derived(i: dict[str, Any]) -> bytes:
    return derive(bytes.fromhex(i["secret"]), *(FIELD[kind](text) for kind, text in i["fields"]))


def signed(i: dict[str, Any]) -> bytes:
    return SigningKey(bytes.fromhex(i["secret"])).sign(bytes.fromhex(i["message"]))


def verified(i: dict[str, Any]) -> None:
    public, signature, message = (bytes.fromhex(i[name]) for name in ("public", "signature", "message"))
    verify(public, signature=signature, message=message)


def parameters(texts: dict[str, str]) -> Parameters:
    return Parameters(**{name: float(text) if name == "alpha" else int(text) for name, text in texts.items()})


def report(i: dict[str, Any]) -> list[bytes] | None:
    whole = np.array([int(x) for x in i["vector"]])
    found = pine.shard(parameters(i["parameters"]), whole, bytes.fromhex(i["nonce"]), bytes.fromhex(i["randomness"]))
    return None if found is None else list(found)


def prepared(i: dict[str, Any]) -> list[tuple[pine.State, bytes]]:
    p = parameters(i["parameters"])
    key, nonce, public, *shares = (bytes.fromhex(i[name]) for name in ("key", "nonce", "public", "leader", "helper"))
    return [pine.prepare(p, key, at, nonce=nonce, public=public, share=share) for at, share in enumerate(shares)]


def accept(i: dict[str, Any]) -> list[np.ndarray]:
    states, shares = zip(*prepared(i), strict=True)
    message = pine.combine(parameters(i["parameters"]), shares)
    return [pine.finish(state, message) for state in states]


def opened(i: dict[str, Any]) -> bytes:
    fields = (FIELD[kind](text) for kind, text in i["fields"])
    return AgreementKey(bytes.fromhex(i["secret"])).open_box(bytes.fromhex(i["box"]), *fields)


# A sum over two operators. In its vectors a value is bytes if it is spelt in hex digits, a number if it has no letter.


def typed(value: Any, like: Any) -> Any:
    """A value of a vector in the type of a field of a struct."""
    if isinstance(like, msgspec.inspect.StructType):
        led = [] if like.tag is None else value[:1]
        fields = zip(value[len(led) :], like.fields, strict=True)
        return led + [typed(one, field.type) for one, field in fields]
    if isinstance(like, msgspec.inspect.VarTupleType):
        return [typed(one, like.item_type) for one in value]
    if isinstance(like, msgspec.inspect.BytesType):
        return bytes.fromhex(value)
    if isinstance(like, msgspec.inspect.BoolType):
        return {"True": True, "False": False}[value]
    number = float if isinstance(like, msgspec.inspect.FloatType) else int
    return value if text(like) else number(value)


def text(like: Any) -> bool:
    literal = isinstance(like, msgspec.inspect.LiteralType) and isinstance(like.values[0], str)
    return literal or isinstance(like, msgspec.inspect.StrType)


KINDS = {step(kind): kind for kind in get_args(AnyMessage)}


def struct(kind: type[Any], values: list[Any]) -> Any:
    """A struct of the product from the values of a vector."""
    info: Any = msgspec.inspect.type_info(kind)
    return kind(*(convert(typed(one, field.type), field.type) for one, field in zip(values, info.fields, strict=True)))


def convert(value: Any, like: Any) -> Any:
    if isinstance(like, msgspec.inspect.StructType):
        fields = value if like.tag is None else value[1:]
        return like.cls(*(convert(one, field.type) for one, field in zip(fields, like.fields, strict=True)))
    if isinstance(like, msgspec.inspect.VarTupleType):
        return tuple(convert(one, like.item_type) for one in value)
    return value


def message(i: dict[str, Any]) -> bytes:
    return encode_message(struct(KINDS[i["tag"]], ["4", i["of"], i["sender"], i["receiver"], *i["fields"]]))


def read(i: dict[str, Any]) -> list[Any]:
    found = decode_message(bytes.fromhex(i["data"]))
    return [step(type(found)), *(parts(getattr(found, name)) for name in found.__struct_fields__[1:])]


def parts(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return [whole(getattr(value, name)) for name in value.__struct_fields__]
    return [parts(one) for one in value] if isinstance(value, tuple) else value


def whole(value: Any) -> Any:
    """A struct within another one begins with its tag, if it has one."""
    tag = value.__struct_config__.tag if isinstance(value, msgspec.Struct) else None
    return parts(value) if tag is None else [tag, *parts(value)]


def joint_task(i: dict[str, Any]) -> bytes:
    statement = ["4", i["of"], i["terms"], i["model"], *i["operators"], i["listed"], i["people"]]
    return digest(struct(two_operators.JointStatement, statement))


def octets(i: dict[str, Any], *names: str) -> list[bytes]:
    return [bytes.fromhex(i[name]) for name in names]


def report_signed(i: dict[str, Any]) -> bytes:
    held, name, nonce, public = octets(i, "held", "name", "nonce", "public")
    boxes = [bytes.fromhex(box) for box in i["boxes"]]
    head = 4, Round(bytes(16), "k", 1), name, bytes(32)
    return encode_message(two_operators._statement(held, Report(*head, nonce, held, public, *boxes, bytes(64))))


def box_fields(i: dict[str, Any]) -> list[Any]:
    held, name, nonce, public = octets(i, "held", "name", "nonce", "public")
    role = two_operators.ROLES.index(i["role"])
    return list(two_operators._box_fields(role, held=held, name=name, nonce=nonce, public=public))


def accepted(i: dict[str, Any]) -> bytes:
    found = bytes.fromhex(i["held"])
    for report in i["reports"]:
        found = two_operators.chained(found, sha256(bytes.fromhex(report)).digest())
    return found


def of_operators(kind: type[Any], *names: str) -> Callable[[dict[str, Any]], bytes]:
    return lambda i: encode_message(struct(kind, [i[name] for name in names]))


# What operators say to each other


def envelope(i: dict[str, Any]) -> str:
    body, deployment, secret, receiver, answers = octets(i, "body", "deployment", "secret", "receiver", "answers")
    said = {"deployment": deployment, "receiver": receiver, "answers": answers, "time": int(i["time"])}
    return operators.sealed(body, identity=SigningKey(secret), **said)  # type: ignore[arg-type]


def opened_envelope(i: dict[str, Any], answers: bytes) -> tuple[bytes, operators.Envelope]:
    body, deployment, sender, receiver = octets(i, "body", "deployment", "sender", "receiver")
    wanted: dict[str, Any] = {
        "deployment": deployment,
        "senders": {sender},
        "receivers": {receiver},
        "answers": answers,
    }
    return body, operators.check_envelope(i["header"].encode(), now=int(i["now"]), **wanted)


def read_asked(i: dict[str, Any]) -> Any:
    return builtins(operators.read_operator_request(*opened_envelope(i, b"")))


def read_answer(i: dict[str, Any]) -> Any:
    kind = ANSWERS[i["kind"]]
    return builtins(operators.read_operator_answer(kind, *opened_envelope(i, bytes.fromhex(i["answers"]))))


def builtins(said: msgspec.Struct) -> Any:
    """Its parts, with the names of all that is signed."""
    return msgspec.to_builtins(said, builtin_types=(bytes,))


ANSWERS = {str(kind.__struct_config__.tag): kind for kind in get_args(operators.OperatorAnswer)}


# A document's fields are spelt as in a message; a real is one that has a point, an exponent or no digits.

DOCUMENTS = {str(kind.__struct_config__.tag): kind for kind in get_args(documents.Document)}


def document(i: dict[str, Any]) -> bytes:
    return encode_message(struct(DOCUMENTS[i["kind"]], i["fields"]))


def read_document(i: dict[str, Any]) -> list[Any]:
    found = documents.read(DOCUMENTS[i["kind"]], bytes.fromhex(i["data"]), name=bytes.fromhex(i["name"]))
    return parts(found)


def log(i: dict[str, Any]) -> list[Any]:
    data, last, deployment, operator = octets(i, "data", "last", "deployment", "operator")
    page = decode_with(msgspec.msgpack.Decoder(documents.Page), data, limit=documents.LIMIT)
    head = documents.Head(int(i["length"]), last).after(page.entries, deployment=deployment, recommender=operator)
    return [head.length, head.last]


def norm_of(i: dict[str, Any]) -> norm.Norm:
    return norm.Norm(float(i["sensitivity"]), int(i["fraction_bits"]))


def reals(texts: list[str]) -> np.ndarray:
    return np.array([float(text) for text in texts], dtype=np.float64)


OPERATIONS = {
    "length": lambda i: norm._direction(reals(i["values"]))[1],
    "within_norm": lambda i: int(norm.within(np.array([int(x) for x in i["whole"]], dtype=np.int64), norm_of(i))),
    "unit_vector": lambda i: list(norm._direction(reals(i["values"]))),
    "clipped": lambda i: norm.clipped(reals(i["values"]), norm_of(i)),
    "scaled": lambda i: norm.scaled(reals(i["values"]), norm_of(i)),
    **operations_campaigns.OPERATIONS,
    **operations_features.OPERATIONS,
    **operations_contributions.OPERATIONS,
    **operations_ledger.OPERATIONS,
    **operations_model.OPERATIONS,
    "document": document,
    "read_document": read_document,
    "log": log,
    "key_stream": lambda i: pine.key_stream(bytes.fromhex(i["key"]), bytes.fromhex(i["start"]), int(i["size"])),
    "encode": encode,
    "decode": decode,
    "additive_split": additive_split,
    "additive_combine": additive_combine,
    "shamir_split": shamir_split,
    "shamir_combine": shamir_combine,
    "stretch": stretch,
    "derive": derived,
    "agreement_public": lambda i: AgreementKey(bytes.fromhex(i["secret"])).public,
    "agree": lambda i: AgreementKey(bytes.fromhex(i["secret"])).agree(bytes.fromhex(i["peer"])),
    "signing_public": lambda i: SigningKey(bytes.fromhex(i["secret"])).public,
    "sign": signed,
    "verify": verified,
    "open_box": opened,
    "report": report,
    "verifier_shares": lambda i: [share for _, share in prepared(i)],
    "accept": accept,
    "message": message,
    "read": read,
    "task": joint_task,
    "report_signed": report_signed,
    "box_fields": box_fields,
    "verification_key": lambda i: two_operators.verification_key(
        AgreementKey(bytes.fromhex(i["secret"])), *octets(i, "peer", "held")
    ),
    "accepted": accepted,
    "closed": of_operators(two_operators.Closed, "held", "batches", "accepted", "count"),
    "commitment": lambda i: digest(
        struct(two_operators.Committed, [i[n] for n in ("closed", "name", "salt", "share")])
    ),
    "sum_signed": of_operators(two_operators.Summed, "closed", "total"),
    "envelope": envelope,
    "read_asked": read_asked,
    "read_answer": read_answer,
}


@pytest.mark.parametrize("entry", named(GOOD))
def test_the_answer_is_that_of_the_reference(entry):
    found = plain(OPERATIONS[entry["operation"]](entry["inputs"]))
    if "within" in entry:
        assert near(found, entry["output"], within=float(entry["within"]))
    else:
        assert found == entry["output"]


def near(found: Any, output: Any, *, within: float) -> bool:
    """Whether every number is as near as it must be, and all else the same."""
    if isinstance(output, list):
        pairs = zip(found, output, strict=True)
        return len(found) == len(output) and all(near(one, other, within=within) for one, other in pairs)
    try:
        number = float(output)
    except (TypeError, ValueError):
        return bool(found == output)
    return abs(float(found) - number) <= within * max(1.0, abs(number))


@pytest.mark.parametrize("entry", named(BAD))
def test_what_the_reference_refuses_is_refused_for_the_same_reason(entry):
    with pytest.raises(PrirecError) as refusal:
        OPERATIONS[entry["operation"]](entry["inputs"])
    assert entry["error"] in [kind.__name__ for kind in type(refusal.value).__mro__]
    assert getattr(refusal.value, "fault", None) == entry.get("fault")


def test_the_files_are_what_the_reference_writes():
    assert {file.name: file.read_text(encoding="utf-8") for file in FILES} == make.texts()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_follows_the_schema(file):
    schema = json.loads((HERE / "schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(file.read_text(encoding="utf-8")), schema)


def test_there_are_enough_vectors_and_enough_bad_ones():
    assert len(VECTORS) >= 100
    assert len(BAD) >= 40
    own = [entry for stem, entry in VECTORS if stem in ("messages", "statements")]
    assert len(own) >= 60
    assert sum("error" in entry for entry in own) >= 25
    between = [entry for stem, entry in VECTORS if stem == "envelopes"]
    assert len(between) >= 60
    assert sum("error" in entry for entry in between) >= 25
    assert len({(stem, entry["claim"], entry["operation"]) for stem, entry in VECTORS}) == len(VECTORS)
    assert {entry["operation"] for _, entry in VECTORS} == set(OPERATIONS)


def test_everything_that_is_said_in_a_sum_over_two_operators_has_a_vector():
    between = [entry for stem, entry in GOOD if stem == "envelopes" and entry["operation"] != "envelope"]
    kinds = (*get_args(operators.OperatorRequest), *get_args(operators.OperatorAnswer))
    assert {entry["output"][0] for entry in between} == {str(kind.__struct_config__.tag) for kind in kinds}
    spelt = {entry["inputs"]["tag"] for stem, entry in GOOD if stem == "messages" and entry["operation"] == "message"}
    moves = (party.LEADER, party.HELPER)
    assert spelt == {step(kind) for table in moves for follows in table.values() for kind in follows}
