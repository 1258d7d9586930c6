"""Whatever a type of messages allows, and small changes to valid bytes of it."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st

_FEW: dict[type, list[Any]] = {msgspec.inspect.BoolType: [False, True], msgspec.inspect.NoneType: [None]}


def strategy(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Anything that a type of the messages allows, its ends included."""
    match kind:
        case msgspec.inspect.StructType():
            return st.builds(kind.cls, *(strategy(field.type) for field in kind.fields))
        case msgspec.inspect.BytesType():
            return st.binary(min_size=kind.min_length or 0, max_size=kind.max_length or 40)
        case msgspec.inspect.StrType():
            return st.text(min_size=kind.min_length or 0, max_size=kind.max_length)
        case msgspec.inspect.IntType():
            most = kind.le if kind.le is not None else (kind.lt or 2**63) - 1
            return st.sampled_from([kind.ge or 0, most]) | st.integers(kind.ge or 0, most)
        case msgspec.inspect.FloatType():
            return st.floats(min_value=kind.ge, max_value=kind.le)
        case msgspec.inspect.BoolType() | msgspec.inspect.NoneType():
            return st.sampled_from(_FEW[type(kind)])
        case msgspec.inspect.LiteralType():
            return st.sampled_from(kind.values)
        case msgspec.inspect.VarTupleType():
            return st.lists(strategy(kind.item_type), min_size=kind.min_length or 0, max_size=3).map(tuple)
        case msgspec.inspect.UnionType():
            return st.one_of([strategy(one) for one in kind.types])
    raise NotImplementedError(kind)


def any_of(kind: Any) -> st.SearchStrategy[Any]:
    return strategy(msgspec.inspect.type_info(kind))


def sample(kind: msgspec.inspect.Type, *, size: int) -> Any:
    """One value of a type, the same ever again: with nothing in it that may be empty, or with everything."""
    match kind:
        case msgspec.inspect.StructType():
            return kind.cls(*(sample(field.type, size=size) for field in kind.fields))
        case msgspec.inspect.BytesType():
            return bytes(kind.min_length or 20 * size)
        case msgspec.inspect.StrType():
            return "x" * size
        case msgspec.inspect.IntType():
            return kind.ge or 0
        case msgspec.inspect.FloatType():
            return 0.5 * size
        case msgspec.inspect.UnionType():
            return sample(kind.types[-1 if size else 0], size=size)
        case msgspec.inspect.BoolType() | msgspec.inspect.NoneType():
            return _FEW[type(kind)][-1]
        case msgspec.inspect.LiteralType():
            return kind.values[-1]
        case msgspec.inspect.VarTupleType():
            return tuple(sample(kind.item_type, size=size) for _ in range(max(size, kind.min_length or 0)))
    raise NotImplementedError(kind)


def mutated(data: bytes, chance: random.Random, others: list[bytes]) -> bytes:
    """A small change to valid bytes, of a kind that an enemy or a bad line would make."""
    at, how = chance.randrange(len(data)), chance.randrange(9)
    if how == 0:
        return data[:at]
    if how == 1:
        return data + chance.randbytes(chance.randrange(1, 9))
    if how == 2:
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if how == 3:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if how == 4:
        return data[:at] + chance.randbytes(chance.randrange(1, 5)) + data[at:]
    if how == 5:
        return data[:at] + data[at + chance.randrange(1, 40) :]
    if how == 6:
        other = chance.choice(others)
        return data[:at] + other[chance.randrange(len(other)) :]
    if how == 7:  # another length, type or number in the place of this one
        head = chance.choice([0xC0, 0xC2, 0xC4, 0xC5, 0xC6, 0xCA, 0xCC, 0xCF, 0xD3, 0xDB, 0xDD, 0xDF, 0xC7, 0x90, 0xFF])
        return data[:at] + bytes([head]) + chance.randbytes(chance.randrange(9)) + data[at + 1 :]
    return chance.randbytes(at)


def fuzzed(samples: list[bytes], *, seed: int, many: int) -> Iterator[bytes]:
    """Samples with a change or two."""
    chance = random.Random(seed)  # noqa: S311
    for _ in range(many):
        data = mutated(chance.choice(samples), chance, samples)
        yield data if chance.random() < 0.8 else mutated(data or b"\0", chance, samples)
