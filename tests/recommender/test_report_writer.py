"""Reports on their way into the store: those that come at once share a commit, and each is answered for itself."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from prirec.errors import Fault, PeerError, PrirecError, StateError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import VERSION, Report, Round
from prirec.recommender.joint_rounds import JointRounds
from prirec.recommender.report_writer import MOST_TOGETHER, ReportWriter
from prirec.recommender.responses import RefusedError
from prirec.recommender.store import Store
from support.low_floors import low_floor
from support.operator_pair import OperatorPair, person
from support.rounds import altered

Answers = list[PrirecError | None]


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OperatorPair:
    low_floor(monkeypatch, 2)
    made = OperatorPair(tmp_path)
    made.begin()
    made.run()
    return made


@pytest.fixture
def commits(pair: OperatorPair, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many reports each commit had."""
    seen, post = list[int](), JointRounds.post

    def counted(self: JointRounds, posted: Sequence[tuple[Report, bytes]], *, now: float) -> list[PeerError | None]:
        seen.append(len(posted))
        return post(self, posted, now=now)

    monkeypatch.setattr(JointRounds, "post", counted)
    return seen


def posted(pair: OperatorPair, *what: tuple[int, bytes]) -> Answers:
    """What each of these devices is answered, when all of them post at once."""

    async def one(writer: ReportWriter, at: int, body: bytes) -> PrirecError | None:
        try:
            await writer.take(person(at).public, body)
        except PrirecError as refusal:
            return refusal
        return None

    async def everyone() -> Answers:
        writer = ReportWriter(pair.leading, write=asyncio.to_thread, clock=lambda: pair.now)
        return await asyncio.gather(*(one(writer, at, body) for at, body in what))

    return asyncio.run(everyone())


def test_reports_that_come_at_once_share_a_commit(pair: OperatorPair, commits: list[int]) -> None:
    assert posted(pair, *((at, encode(pair.report(at))) for at in range(6))) == [None] * 6
    assert commits == [6]
    assert pair.leading.joint.count_reports(pair.task.round) == 6


def test_a_commit_takes_so_many_and_no_more(pair: OperatorPair, commits: list[int]) -> None:
    same = 0, encode(pair.report(0))
    assert posted(pair, *[same] * (MOST_TOGETHER + 1)) == [None] * (MOST_TOGETHER + 1)
    assert commits == [MOST_TOGETHER, 1]
    assert pair.leading.joint.count_reports(pair.task.round) == 1


def test_a_bad_report_among_others_is_refused_alone(pair: OperatorPair, commits: list[int]) -> None:
    late = altered(pair.report(1), round=altered(pair.report(1).round, number=7))
    stranger = encode(altered(pair.report(2), sender=person(30).public))
    pair.leading.leave(person(5).public)
    answers = posted(
        pair, (0, b"no report"), (1, encode(late)), (2, encode(pair.report(3))), (30, stranger),
        (4, encode(pair.report(4))), (5, encode(pair.report(5))), (6, encode(pair.report(6))),
    )  # fmt: skip
    faults = [None if one is None else one.fault for one in answers if one is None or hasattr(one, "fault")]
    assert faults == [Fault.DECODE, Fault.ORDER, Fault.AUTH, Fault.AUTH, None, Fault.AUTH, None]
    assert [type(answers[at]) for at in (3, 5)] == [RefusedError, RefusedError]  # who is not enrolled
    assert commits == [3]  # the late one, and two good ones


@pytest.mark.parametrize("kind", ["\0", "popularity\0", "neighbours"])
def test_a_name_of_a_sum_that_a_database_cannot_look_for_is_refused_alone(store: Store, kind: str) -> None:
    report = Report(
        VERSION, Round(bytes(16), "popularity", 0), bytes(32), bytes(32), bytes(16), bytes(32), bytes(128), b"",
        bytes(176), bytes(64),
    )  # fmt: skip
    strange = altered(report, round=altered(report.round, kind=kind))
    assert decode(encode(strange)) == strange  # a device can post it
    found = store.joint.post([(one, encode(one)) for one in (report, strange)], now=0.0)
    assert [one.fault for one in found if one is not None] == [Fault.ORDER, Fault.ORDER]  # no window is open


def test_where_the_store_fails_each_is_told_so_and_the_next_is_taken(
    pair: OperatorPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StateError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(JointRounds, "post", fail)
        answers = posted(pair, *((at, encode(pair.report(at))) for at in range(3)))
    assert [type(one) for one in answers] == [StateError] * 3
    assert posted(pair, (0, encode(pair.report(0)))) == [None]


def test_whoever_goes_before_the_answer_delays_nobody(pair: OperatorPair) -> None:
    async def everyone() -> None:
        writer = ReportWriter(pair.leading, write=asyncio.to_thread, clock=lambda: pair.now)
        gone, *others = (
            asyncio.create_task(writer.take(person(at).public, encode(pair.report(at)))) for at in range(4)
        )
        await asyncio.sleep(0)  # all of them are under way
        gone.cancel()
        await asyncio.gather(*others)

    asyncio.run(everyone())
    assert pair.leading.joint.count_reports(pair.task.round) == 4
