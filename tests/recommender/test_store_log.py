"""Documents are what their names say; the log only grows, one entry after the other, and names what is there."""

import pytest

from prirec.errors import StateError, UsageError
from prirec.recommender.store import Store
from prirec.wire.documents import Head, Model, SignedEntry, written
from support import messages
from support.stores import DEPLOYMENT, IDENTITY, OTHER, everything, signed

MODELS = [written(Model(bytes(32), at, bytes(8))) for at in range(5)]
NAMES = [name for name, _ in MODELS]


def test_a_document_is_found_by_its_name_and_no_other(store: Store) -> None:
    store.put(MODELS[:2])
    store.put(iter(MODELS[1:3]))  # again is the same
    assert [store.document(name) for name in NAMES] == [body for _, body in MODELS[:3]] + [None, None]


def test_a_document_of_a_megabyte_comes_back_as_it_was(store: Store) -> None:
    large = written(Model(bytes(32), 0, bytes(range(256)) * 4096))
    store.put([large])
    assert store.document(large[0]) == large[1]


def test_a_body_under_another_name_is_refused_and_nothing_is_put(store: Store) -> None:
    with pytest.raises(UsageError, match=messages.DOCUMENT_UNDER_ANOTHER_HASH):
        store.put([MODELS[0], (NAMES[1], b"something else")])
    assert store.document(NAMES[0]) is None


def test_a_new_log_is_empty(store: Store) -> None:
    assert store.head() == Head()
    assert store.entries(0) == []
    assert store.last("charter") is None


def test_a_device_follows_the_log_page_by_page_to_its_head(store: Store) -> None:
    entries = signed(Head(), *(("model", name) for name in NAMES))
    store.advance(progress=b"", documents=MODELS, entries=entries[:3])
    store.advance(progress=b"", entries=entries[3:])
    known = Head()
    while page := store.entries(known.length, 2):
        known = known.after(page, deployment=DEPLOYMENT, recommender=IDENTITY.public)
    assert known == store.head()
    assert known.length == 5
    assert store.entries(1, 3) == entries[1:4]
    assert store.entries(5) == []


def test_the_last_entry_of_each_subject_is_found(store: Store) -> None:
    entries = signed(Head(), ("charter", NAMES[0]), ("edition", NAMES[1]), ("model", NAMES[2]), ("model", NAMES[3]))
    store.advance(progress=b"", documents=MODELS, entries=entries)
    assert store.last("charter") == entries[0].entry
    assert store.last("model") == entries[3].entry
    assert store.last("publication") is None


@pytest.mark.parametrize(
    "wrong",
    [
        signed(Head(), ("model", NAMES[1])),  # the one that is there already, said in another way
        signed(Head(2, OTHER), ("model", NAMES[1])),  # leaves one out
        signed(Head(1, OTHER), ("model", NAMES[1])),  # follows on another log
    ],
)
def test_an_entry_that_is_not_the_next_is_refused_with_all_that_came_with_it(
    store: Store, wrong: list[SignedEntry]
) -> None:
    store.advance(progress=b"before", documents=MODELS[:1], entries=signed(Head(), ("model", NAMES[0])))
    before = everything(store)
    with pytest.raises(StateError, match=messages.LOG_ENTRY_OUT_OF_ORDER):
        store.advance(progress=b"after", documents=MODELS, entries=wrong)
    assert everything(store) == before
    assert store.document(NAMES[1]) is None


def test_an_entry_that_repeats_itself_is_refused(store: Store) -> None:
    twice = signed(Head(), ("model", NAMES[0])) * 2
    with pytest.raises(StateError, match=messages.LOG_ENTRY_OUT_OF_ORDER):
        store.advance(progress=b"", documents=MODELS, entries=twice)
    assert store.head() == Head()


def test_a_log_entry_must_name_a_stored_document(store: Store) -> None:
    with pytest.raises(StateError, match=messages.LOG_ENTRY_WITHOUT_ITS_DOCUMENT):
        store.advance(progress=b"", documents=MODELS[1:], entries=signed(Head(), ("model", NAMES[0])))
    assert store.head() == Head()
    store.put(MODELS[:1])
    store.advance(progress=b"", entries=signed(Head(), ("model", NAMES[0])))
    assert store.head().length == 1
