"""docs/who-learns-what.md is complete: no message, no content, no part and no field goes without words."""

from collections.abc import Iterator
from typing import get_args, get_origin, get_type_hints

import pytest

from prirec.protocols import messages, party
from prirec.protocols.messages import AnyContent, AnyMessage, Boxes, Delivery, Message, WireStruct
from prirec.protocols.party import Moves
from who_learns_what import CONTENTS, MESSAGES, PARTS, Disclosure, Role, Sealed, Sent

TABLES: dict[Role, tuple[Moves, ...]] = {
    Role.MEMBER: (party.MEMBER, party.PAD_MEMBER),
    Role.COLLECTOR: (party.COLLECTOR,),
    Role.NEIGHBOUR: (party.NEIGHBOUR,),
    Role.USER: (party.RECEIVER,),
    Role.DEVICE: (party.DEVICE,),
    Role.LEADER: (party.LEADER,),
    Role.HELPER: (party.HELPER,),
}
TOLD: dict[type[WireStruct], Disclosure] = {**MESSAGES, **CONTENTS}


def parts_of(kind: object) -> Iterator[type[WireStruct]]:
    """The structs that a type is made of, however deep."""
    for inner in get_args(kind) if get_origin(kind) is not None else ():
        yield from parts_of(inner)
    if isinstance(kind, type) and issubclass(kind, WireStruct):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from parts_of(hint)


def fields_of(kind: type[WireStruct]) -> list[str]:
    head = Message.__struct_fields__ if issubclass(kind, Message) and kind is not Message else ()
    return [name for name in kind.__struct_fields__ if name not in head]


def test_every_message_and_every_content_has_words() -> None:
    assert set(MESSAGES) == set(get_args(AnyMessage))
    assert set(CONTENTS) == set(get_args(AnyContent))


def test_every_part_that_travels_has_words() -> None:
    travelling = {part for kind in TOLD for part in parts_of(kind)} - TOLD.keys()
    assert travelling | {Message} == set(PARTS)


def test_every_struct_of_the_messages_module_is_described_or_is_a_base_class() -> None:
    structs = {one for one in vars(messages).values() if isinstance(one, type) and issubclass(one, WireStruct)}
    assert structs - {WireStruct, messages.SecretStruct} == {*TOLD, *PARTS}


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_the_words_cover_every_field_of_a_message(kind: type[WireStruct]) -> None:
    assert list(TOLD[kind].fields) == fields_of(kind)


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_the_words_cover_every_field_of_a_part(kind: type[WireStruct]) -> None:
    assert list(PARTS[kind]) == fields_of(kind)


@pytest.mark.parametrize("kind", TOLD, ids=lambda kind: kind.__name__)
def test_no_words_are_empty(kind: type[WireStruct]) -> None:
    one = TOLD[kind]
    said = [*one.fields.values(), one.to_receiver, one.to_relay, one.hidden]
    assert all(text.strip() for text in said)
    assert not any("|" in text for text in said), "a bar would break the table"


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_who_receives_a_message_is_whose_table_of_moves_takes_it(kind: type[AnyMessage]) -> None:
    taking = {role for role, tables in TABLES.items() if any(kind in row for table in tables for row in table.values())}
    told = MESSAGES[kind]
    assert isinstance(told, Sent)
    assert {receiver for _, receiver in told.ways} == taking


@pytest.mark.parametrize("kind", CONTENTS, ids=lambda kind: kind.__name__)
def test_contents_lie_in_messages_that_hold_something_sealed(kind: type[AnyContent]) -> None:
    told = CONTENTS[kind]
    assert isinstance(told, Sealed)
    for message in told.inside:
        assert "sealed" in fields_of(message) or message in (Boxes, Delivery)


def test_every_message_that_holds_something_sealed_says_what() -> None:
    holding = {kind for kind in MESSAGES if {"sealed", "boxes"} & set(fields_of(kind))}
    assert holding == {message for told in CONTENTS.values() for message in told.inside}
