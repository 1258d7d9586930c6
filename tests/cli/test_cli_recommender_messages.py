"""prirec recommender: what an operator is told is true, and says what to give."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from prirec.data.write_folder import write_folder
from prirec.protocols.codec import encode
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import PhaseOutcome
from prirec.recommender.store import Store
from prirec.recommender.tls import Certificates
from support import messages, shell
from support.cities import small_city
from support.founded_deployment import folder, store
from support.running_deployment import PRIREC, running

__all__ = ["folder", "store"]
call, told = partial(shell.call, "recommender"), partial(shell.told, "recommender")


# Enrolment


def test_a_code_in_an_environment_variable_is_refused_and_not_ignored(store, monkeypatch):
    monkeypatch.setattr("prirec.recommender.server.Server", None)  # one that starts all the same would not end
    monkeypatch.setenv("PRIREC_ENROLMENT_CODE", "sesame")
    done = call("serve", store, "--port", 0)
    assert (done.exit_code, done.stdout) == (2, "")
    assert shell.says(done.stderr, messages.CODE_VARIABLE_NOT_READ)


@pytest.mark.parametrize(("flags", "words"), [((), "open to anybody"), (("--code-file", "code"), "asks for a code")])
def test_the_service_says_who_may_enrol(store, folder, flags, words):
    (folder / "code").write_text("sesame\n")
    with running(PRIREC, "recommender", "serve", store, "--port", 0, *flags, cwd=folder) as service:
        assert json.loads(service.heard('"serving"'))["enrolment"] == words


# Certificates


@pytest.mark.parametrize("host", ["https://recommender.example:8443", "recommender.example:8443", "", "10.0.0.300"])
def test_an_invalid_host_name_is_refused_with_examples(folder, host):
    done = call("init", folder / "town.db", "--title", "Our town", "--host", host)
    assert (done.exit_code, list(folder.iterdir())) == (2, [])
    assert shell.says(done.stderr, messages.NOT_A_HOST)


def test_no_certificate_is_made_for_an_invalid_host_name(store):
    before = Certificates.beside(str(store)).certificate.read_bytes()
    assert call("keys", "rotate", store, "--host", "https://recommender.example").exit_code == 2
    assert Certificates.beside(str(store)).certificate.read_bytes() == before


@pytest.mark.parametrize(
    ("age", "event"), [(826, "the certificate has ended"), (815, "the certificate ends soon"), (800, None)]
)
def test_a_service_warns_of_a_certificate_near_its_end(store, folder, age, event):
    Certificates.beside(str(store)).renew(hosts=[], now=datetime.now(UTC) - timedelta(days=age))
    with running(PRIREC, "recommender", "serve", store, "--port", 0, cwd=folder, env={}) as service:
        service.heard('"serving"')
    warned = [line["event"] for line in map(json.loads, service.lines) if line["level"] == "warning"]
    assert warned == ([] if event is None else [event])
    noted = call("status", store).stderr
    assert shell.says(noted, messages.certificate_of_the_server("has ended" if age > 825 else r"ends in \d+ days"))


# Campaigns and places


def past(kind: str, *, iteration: int = 0, opened: bool = False) -> PhaseOutcome:
    return PhaseOutcome(kind, iteration, opened, 60 * opened, 60)


ENDS: dict[str, tuple[dict[str, Any], str]] = {
    "at once": ({}, "its operator ended it"),
    "in its second attempt": ({"attempt": 1, "past": (past("visits"),)}, "its operator ended it"),
    "in its first round": ({"past": (past("visits", opened=True),)}, "its operator ended it"),
    "between rounds": (
        {"iteration": 1, "past": (past("visits", opened=True), past("learning"))}, "its operator ended it",
    ),
    "visits": ({"past": (past("visits"),)}, "its sum of visits was not opened"),
    "visits, five times": ({"attempt": 4, "past": (past("visits"),) * 5}, "its sum of visits was not opened"),
    "moments": (
        {"past": (past("visits", opened=True), past("moments"))}, "its sum of moments was not opened",
    ),
    "learning": (
        {"iteration": 3, "past": (past("moments", opened=True), past("learning", iteration=2))},
        "the shared model was never moved",
    ),
}  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
def test_status_says_why_a_campaign_failed(store, tmp_path, end):
    write_folder(small_city(people=20, places=15, records=60), tmp_path / "city")
    told("publish", store, tmp_path / "city")
    changes, why = ENDS[end]
    with Store.open(store) as opened:
        for at in range(60):
            opened.enrol(bytes([at]) * 32, day=0)
        assert call("rounds", "begin", store, "--anyway", "--set", "floor=50", "--set", "iterations=3").exit_code == 0
        progress = msgspec.structs.replace(rules.decode_state(opened.progress() or b""), **changes)
        opened.advance(progress=encode(rules.failed(progress)))
    assert f"failed: {why}" in call("status", store, columns=200).stdout


def test_status_says_that_an_operator_ended_a_campaign(store, tmp_path):
    write_folder(small_city(people=20, places=15, records=60), tmp_path / "city")
    told("publish", store, tmp_path / "city")
    with Store.open(store) as opened:
        for at in range(60):
            opened.enrol(bytes([at]) * 32, day=0)
    assert call("rounds", "begin", store, "--anyway", "--set", "floor=50").exit_code == 0
    assert call("rounds", "end", store).exit_code == 0
    assert "failed: its operator ended it" in call("status", store, columns=200).stdout


def test_a_missing_folder_to_publish_is_refused_with_the_file_it_needs(store, folder):
    done = call("publish", store, folder / "nosuch")
    assert (done.exit_code, done.stdout) == (3, "")
    assert shell.says(done.stderr, messages.PLACES_FOLDER_MISSING)
    assert "visits" not in done.stderr
