"""The TypeScript device (web/) gives what the vectors say, wherever it runs; its reports are summed with Python's."""

import json
import re
from hashlib import sha256

import numpy as np

from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Report
from prirec.protocols.two_operators import JointTask
from support.joint_sums import Meeting, honest, joint_task, joint_terms, person, total, vectors
from support.web import WEB, chromium, node

OF_PAGES = ("audit.test", "city.test")  # beside the tests of these pages


def test_in_node_every_vector_has_its_answer_and_the_rest_holds():
    tests = sorted(f"test/{file.name}" for file in (WEB / "test").glob("*.test.ts") if file.stem not in OF_PAGES)
    printed = node("--test", "--test-reporter=tap", *tests)
    counts = {name: int(many) for name, many in re.findall(r"^# (\w+) (\d+)$", printed, re.MULTILINE)}
    assert counts["pass"] == counts["tests"] > 450


def test_in_a_worker_of_chromium_every_vector_has_its_answer():
    printed = node("test/in_chromium.ts", chromium())
    assert int(printed.split()[0]) > 450


def made_in_typescript(task: JointTask, values: np.ndarray, positions: range) -> list[Report]:
    """The reports of some people, made under Node."""
    people = [{"secret": secret(2000 + at), "vector": values[at].view(np.int64).tolist()} for at in positions]
    printed = node("test/make_reports.ts", given=json.dumps({"task": encode(task.statement).hex(), "people": people}))
    reports = [decode(bytes.fromhex(line)) for line in printed.split()]
    assert [report.sender for report in reports] == [person(at).public for at in positions]
    return [report for report in reports if isinstance(report, Report)]


def secret(number: int) -> str:
    return sha256(b"identity %d" % number).hexdigest()  # as support.rounds.identity has it


def test_reports_of_both_kinds_of_devices_are_summed_exactly():
    task, many = joint_task(), 8
    values = vectors(many, task.terms)
    meeting = Meeting(task, many=many)
    meeting.post(made_in_typescript(task, values, range(0, many, 2)))
    meeting.post(honest(task, at, values[at]) for at in range(1, many, 2))
    meeting.close()
    assert not meeting.refused
    assert_summed(meeting, values, many)


def test_reports_of_a_real_size_are_summed_exactly():
    """445 entries, under a norm that one of them reaches."""
    task = joint_task(joint_terms(length=445, bound=4095, fraction_bits=12))
    values = vectors(2, task.terms)
    meeting = Meeting(task, many=2)
    meeting.post(made_in_typescript(task, values, range(2)))
    meeting.close()
    assert_summed(meeting, values, 2)


def assert_summed(meeting: Meeting, values: np.ndarray, many: int) -> None:
    for finished in meeting.finished:
        assert finished is not None
        assert (finished.summands, finished.total.tolist()) == (many, total(values, range(many)))


def test_the_package_and_the_page_are_as_small_as_is_promised():
    printed = node("scripts/size.ts")  # which fails where one is larger
    assert re.search(r"@prirec/device: \d+ bytes with gzip, of at most 80000", printed)
    assert printed.count("My phone") == 3
