"""A run over parts, measured and saved: the same folder as of any other run, written by shards where it is long."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib.format import open_memmap, write_array_header_1_0

from prirec import settings_file
from prirec.beside import room_beside
from prirec.engines.checkpoint import Checkpoint
from prirec.engines.conducting import Crew
from prirec.engines.durable import move_in
from prirec.engines.run_folder import bytes_of, write_files
from prirec.engines.starts import starts_from
from prirec.engines.state import Passed
from prirec.errors import StateError
from prirec.evaluate.apart_conducting import CityApart
from prirec.evaluate.apart_results import Tested, Wins
from prirec.evaluate.catalogue import place_keys
from prirec.evaluate.metrics import Quality
from prirec.types import RealArray

CHUNK = 1 << 24
FEW = 0.25  # the share of people with fewest records, as in metrics.auc_of_few


def quality_apart(crew: Crew, V: RealArray) -> Quality:
    """On test records that nobody holds together. AUCs are exact; means of losses may differ in the last digits."""
    found: Tested = crew.summed("test", V)
    tested = int(found.people.sum())
    few = None if not tested else int(np.searchsorted(np.cumsum(found.people), int(np.ceil(FEW * tested))))
    return Quality(
        auc=_wins(crew, None).auc(),
        log_loss=found.losses / found.records if found.records else float("nan"),
        gauc=found.weighted / found.within if found.within else float("nan"),
        auc_few=_wins(crew, few).auc(),
        records=found.records,
    )


def _wins(crew: Crew, most: int | None) -> Wins:
    crew.each("begin_wins", most)
    crew.among("negatives", "count_wins")
    won: Wins = crew.summed("wins")
    return won


def save_apart(path: Path, crew: Crew, city: CityApart, course: Checkpoint, *, source: str) -> None:
    """Written beside, then moved into place. Every node must reach the folder that the run is in."""
    place = path.resolve()
    beside = room_beside(place)
    try:
        beside.mkdir(parents=True)
        rows = _long_files(beside, crew, city)
        hashes = {name: _hash(beside / name) for name in ("linear.npy", "people.npy")}
        write_files(beside, _short(crew, city, course), source=source, rows=rows, there=hashes)
        move_in(beside, place)
    except OSError as error:
        raise StateError(f"the run could not be saved to {path}: {error.strerror}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _short(crew: Crew, city: CityApart, course: Checkpoint) -> dict[str, bytes]:
    """What the driver knows."""
    starts = starts_from(crew.summed("inhabitants"), floor=city.settings.floor)
    return {
        "settings.toml": settings_file.dump(city.settings).encode(),
        "encoding.json": city.encoding.to_json(),
        "interaction.npy": bytes_of(course.state.interaction),
        "popularity.json": msgspec.json.encode(city.released),
        "cells.npy": bytes_of(starts.cells),
        "starts.npy": bytes_of(starts.models),
        "history.jsonl": _history(course.history),
        "catalogue.npy": bytes_of(place_keys(city.places)),
    }


def _history(history: Sequence[Passed]) -> bytes:
    return b"".join(msgspec.json.encode(passed) + b"\n" for passed in history)


def _long_files(folder: Path, crew: Crew, city: CityApart) -> str:
    """linear.npy and people.npy; and the fingerprint of rows and records that run_folder.rows_of has."""
    people, features = city.whole.people, city.whole.features
    crew.each("begin_ranks")
    crew.among("codes", "count_before")
    _room(folder / "linear.npy", np.float64, (people, features + 1))
    _room(folder / "people.npy", np.uint64, (people,))
    for side in ("train", "test"):
        _room(folder / f"{side} counts.npy", np.int64, (people,))
    crew.each("write", str(folder))
    digest = blake2b(digest_size=16)
    _update(digest, folder / "people.npy")
    persons = city.encoding.width(city.encoding.person)
    digest.update(f"{(city.whole.places, city.encoding.width(city.encoding.place))} {(people, persons)}".encode())
    for side in ("train", "test"):
        _fingerprint(digest, folder, side, crew)
    return str(digest.hexdigest())


def _fingerprint(digest: Any, folder: Path, side: str, crew: Crew) -> None:
    done = _write_offsets(folder / f"{side} counts.npy", folder / f"{side} offsets.npy")
    _room(folder / f"{side} place.npy", np.int32, (done,))
    _room(folder / f"{side} label.npy", np.int8, (done,))
    crew.each("write_records", str(folder), side)
    for name in ("offsets", "place", "label"):
        _update(digest, folder / f"{side} {name}.npy")
        (folder / f"{side} {name}.npy").unlink()
    (folder / f"{side} counts.npy").unlink()


def _write_offsets(counts: Path, offsets: Path) -> int:
    """Where the records of everyone begin, and of how many there are the end."""
    done = 0
    with offsets.open("wb") as out:
        shape = (np.load(counts, mmap_mode="r").size + 1,)
        write_array_header_1_0(out, {"descr": "<i8", "fortran_order": False, "shape": shape})
        out.write(np.int64(0).tobytes())
        for some in _entries(counts):
            ends = done + np.cumsum(np.frombuffer(some, dtype=np.int64))
            out.write(ends.tobytes())
            done = int(ends[-1])
    return done


def _room(file: Path, kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """For shards to write in; a disk without room says so here."""
    open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=shape)
    with file.open("r+b") as made, suppress(AttributeError):  # not every system can be asked
        os.posix_fallocate(made.fileno(), 0, max(file.stat().st_size, 1))


def _update(digest: Any, file: Path) -> None:
    for some in _entries(file):
        digest.update(some)


def _entries(file: Path) -> Iterator[bytes]:
    """Those of an array, as a stream: a file that is mapped counts as memory, whole."""
    with file.open("rb") as stream:
        stream.seek(np.load(file, mmap_mode="r").offset)
        while some := stream.read(CHUNK):
            yield some


def _hash(file: Path) -> str:
    digest = blake2b(digest_size=32)
    with file.open("rb") as stream:
        while some := stream.read(CHUNK):
            digest.update(some)
    return digest.hexdigest()
