"""A device's file that is damaged, and a disk that is full: one line that says so, exit code 5, never a traceback."""

import asyncio
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from prirec.device.person import Visit
from prirec.device.store import Store
from prirec.device.sync import View
from prirec.errors import StateError
from prirec.wire.campaign import write_model
from prirec.wire.documents import written
from support import messages, shell
from support.dishonest_recommender import DEPLOYMENT, Dishonest, Target, whole_sum
from support.fault_injection import FEW
from support.low_floors import low_floor

COMMANDS = (
    ("status",), ("profile",), ("profile", "age=32"), ("visit", "a"), ("recommend",), ("privacy",), ("export",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def floor(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


def published(folder: Path) -> Target:
    """A device after a round, with everything to recommend from."""
    recommender = Dishonest()
    target = Target.of(recommender, folder / "phone.db", profile={"age": 31.0}, visits=("a", "b"))
    campaign, B = recommender.rounds(features=np.ones((3, 1)), B=0.125)
    asyncio.run(whole_sum(target, campaign.interaction(0, B=B)))
    recommender.say("publication", write_model(written(campaign.scales)[0], campaign.columns, B, iteration=1))
    asyncio.run(target.agent.follow())
    return target


def damage(whole: bytes, luck: random.Random) -> bytes:
    """A byte or some, a stretch, two pages exchanged, or the end cut off."""
    data, how = bytearray(whole), luck.random()
    if how < 0.5:
        for _ in range(luck.choice((1, 3, 20))):
            data[luck.randrange(100, len(data))] = luck.randrange(256)
    elif how < 0.7:
        at = luck.randrange(len(data) - 4096)
        data[at : at + 4096] = luck.randbytes(4096)
    elif how < 0.85:
        one, other = (4096 * luck.randrange(len(data) // 4096) for _ in range(2))
        data[one : one + 4096], data[other : other + 4096] = data[other : other + 4096], data[one : one + 4096]
    else:
        data = data[: luck.randrange(len(data))]
    return bytes(data)


def member_of(file: Path) -> bytes:
    with closing(sqlite3.connect(file)) as rows:
        (deployment,) = rows.execute("SELECT deployment FROM membership").fetchone()
    return bytes(deployment)


def test_a_damaged_file_is_never_a_traceback(tmp_path: Path) -> None:
    """Of 150 damaged files some are sound where a command looks; all others are told as damaged."""
    published(tmp_path).person.store.close()
    whole, luck, codes = (tmp_path / "phone.db").read_bytes(), random.Random(7), list[int]()  # noqa: S311
    for words in COMMANDS:
        assert shell.call("device", words[0], tmp_path / "phone.db", *words[1:]).exit_code == 0
    for at in range(150):
        file, words = tmp_path / f"{at}.db", luck.choice(COMMANDS)
        file.write_bytes(damage(whole, luck))
        done = shell.call("device", words[0], file, *words[1:])
        assert isinstance(done.exception, SystemExit | None), f"{words[0]}: {type(done.exception).__name__}"
        # 6: the row that says which deployment it is; nothing but the recommender's documents contradicts it
        assert done.exit_code in (0, 5) or (done.exit_code == 6 and member_of(file) != DEPLOYMENT)
        assert done.exit_code == 0 or len(done.stderr.splitlines()) == 1
        codes.append(done.exit_code)
    assert codes.count(5) > 30


def test_a_damaged_document_is_told_as_damage_and_fetched_anew(tmp_path: Path) -> None:
    target = published(tmp_path)
    name = target.agent.view.campaign.charter.people
    body = target.person.document(name)
    with target.person.store.transaction() as rows:
        rows.execute("UPDATE documents SET body = ? WHERE name = ?", (body[:-1] + bytes([body[-1] ^ 1]), name))
    view = View.of(target.person)
    with pytest.raises(StateError, match=messages.STORED_DOCUMENT_DAMAGED) as told:
        len(view.names)
    assert told.value.exit_code == 5
    asyncio.run(target.agent.follow())
    assert target.person.document(name) == body
    assert len(View.of(target.person).names) == 10


def test_an_export_that_does_not_fit_on_the_disk_leaves_no_file(tmp_path: Path) -> None:
    target = published(tmp_path)
    target.person.record_visits([Visit("a", time=at) for at in range(3000)])
    target.person.store.close()
    script = Path(sys.executable).with_name("prirec")
    command = f"ulimit -f 100; exec {script} device export phone.db --out mine.json"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 5
    assert shell.says(done.stderr, messages.OUTPUT_NOT_WRITTEN)
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "mine.json").exists()
    with Store.open(tmp_path / "phone.db"):
        assert shell.call("device", "export", tmp_path / "phone.db", "--out", tmp_path / "mine.json").exit_code == 0
