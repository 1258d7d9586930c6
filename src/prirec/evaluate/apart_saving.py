"""A run over parts, measured and saved: the same folder as of any other run, written by shards where it is long."""

import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.lib.format import open_memmap

from prirec import settings_file
from prirec.engines.checkpoint import Checkpoint
from prirec.engines.conducting import Crew
from prirec.engines.run_folder import bytes_of, move_in, write_files
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
    beside = path.resolve().with_name(f".{path.name}.partial")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        rows = _long_files(beside, crew, city)
        hashes = {name: _hash(beside / name) for name in ("linear.npy", "people.npy")}
        write_files(beside, _short(crew, city, course), source=source, rows=rows, there=hashes)
        move_in(beside, path)
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
    counts = np.load(folder / f"{side} counts.npy", mmap_mode="r")
    offsets = _room(folder / f"{side} offsets.npy", np.int64, (len(counts) + 1,))
    done = 0
    for at in range(0, len(counts), CHUNK // 8):
        some = np.cumsum(counts[at : at + CHUNK // 8])
        offsets[at + 1 : at + 1 + len(some)] = done + some
        done += int(some[-1])
    offsets.flush()
    _room(folder / f"{side} place.npy", np.int32, (done,))
    _room(folder / f"{side} label.npy", np.int8, (done,))
    crew.each("write_records", str(folder), side)
    for name in ("offsets", "place", "label"):
        _update(digest, folder / f"{side} {name}.npy")
        (folder / f"{side} {name}.npy").unlink()
    (folder / f"{side} counts.npy").unlink()


def _room(file: Path, kind: type[np.generic], shape: tuple[int, ...]) -> Any:
    return open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=shape)


def _update(digest: Any, file: Path) -> None:
    """With the entries of an array, as a stream."""
    flat = np.load(file, mmap_mode="r").reshape(-1)
    for at in range(0, len(flat), CHUNK // 8):
        digest.update(np.ascontiguousarray(flat[at : at + CHUNK // 8]).data)


def _hash(file: Path) -> str:
    digest = blake2b(digest_size=32)
    with file.open("rb") as stream:
        while some := stream.read(CHUNK):
            digest.update(some)
    return digest.hexdigest()
