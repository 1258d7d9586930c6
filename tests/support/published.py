"""All that a recommender has published, as a browser would fetch it: for tests of the auditor's page."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from prirec.protocols.codec import encode
from prirec.recommender.service import _hello
from prirec.recommender.store import Store
from prirec.wire.documents import Edition, Manifest, Offer, Page, read


def published(store: Store) -> dict[str, Any]:
    """The bytes of each answer, in Base64."""
    entries = store.entries(0, 10**6)
    names = {one.entry.document for one in entries}
    for entry in (one.entry for one in entries if one.entry.subject in ("catalogue", "edition")):
        kind = Offer if entry.subject == "catalogue" else Edition
        names |= _of_regions(store, read(kind, store.document(entry.document) or b"", name=entry.document).manifest)
    return {
        "deployment": _text(_hello(store.founding())),
        "log": _text(encode(Page(tuple(entries), store.cosigned()))),
        "documents": {name.hex(): _text(store.document(name) or b"") for name in sorted(names)},
    }


def _of_regions(store: Store, manifest: bytes) -> set[bytes]:
    regions = read(Manifest, store.document(manifest) or b"", name=manifest).regions
    return {manifest, *(one.places for one in regions), *(one.counts for one in regions if one.counts)}


def _text(body: bytes) -> str:
    return b64encode(body).decode("ascii")


def write_published(store: Store, path: Path) -> None:
    path.write_text(json.dumps(published(store)), encoding="utf-8")
