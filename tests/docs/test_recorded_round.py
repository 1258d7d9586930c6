"""The round that the auditor's page replays is one that its program records: of real parties, message by message."""

import json
import re
from base64 import b64decode
from typing import Any

import numpy as np

import attack_questions
import recorded_round
from prirec.proofs.field import integers_of, sums
from prirec.protocols.codec import decode
from prirec.protocols.messages import Report, step
from support.pages import ROOT

AUDIT = ROOT / "docs" / "how-to" / "audit.md"


def lengths(recording: dict[str, Any]) -> list[tuple[bool, int]]:
    """Of each message: whether it is a report, and how long it is."""
    return [
        ("device" in one, one["length"] if "length" in one else len(b64decode(one["bytes"])))
        for one in recording["messages"]
    ]


def test_a_round_that_is_recorded_anew_is_like_the_one_of_the_page() -> None:
    held, again = json.loads(recorded_round.PAGE.read_text(encoding="utf-8")), recorded_round.record()
    assert lengths(again) == lengths(held), "the recording is old: run python docs/recorded_round.py"
    for name in ("version", "places", "noise", "exact"):
        assert again[name] == held[name]
    for one, other in zip(again["watched"], held["watched"], strict=True):
        assert one["vector"] == other["vector"]
        assert one["leader"] != other["leader"]  # drawn anew


def test_the_shares_that_stand_beside_a_device_are_those_of_its_vector() -> None:
    held = json.loads(recorded_round.PAGE.read_text(encoding="utf-8"))
    for one in held["watched"]:
        shares = (np.frombuffer(b64decode(one[who]), np.uint64) for who in ("leader", "helper"))
        assert integers_of(sums(*shares)).tolist() == one["vector"]
    reports = [one for one in held["messages"] if "device" in one]
    assert len(reports) == recorded_round.PEOPLE
    whole = [decode(b64decode(one["bytes"])) for one in reports if "bytes" in one]
    assert [step(type(one)) for one in whole] == [step(Report)] * len(held["watched"])


def test_the_page_about_the_attack_tells_how_often_the_questions_are_answered_rightly() -> None:
    asked = json.loads(attack_questions.PAGE.read_text(encoding="utf-8"))
    told = re.findall(r"^\| .* \| (always|\d+ %) \|$", AUDIT.read_text(encoding="utf-8"), flags=re.MULTILINE)
    expected = [f"{100 * asked['expected'][mode]:.0f} %" for mode in ("made up", "planned", "two operators")]
    assert told == ["always", *expected]
