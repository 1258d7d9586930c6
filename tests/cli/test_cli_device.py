"""prirec device in a deployment that runs: a phone joins, takes part, recommends offline, and is forgotten.

One campaign serves all tests; the phone and the service are processes of their own."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import pytest

from prirec.data.dataset import Dataset
from prirec.device.device import Device
from prirec.util.trust import tls_context
from support import messages, shell
from support.running_deployment import PRIREC, Others, Running, running, running_service, serving, write_town
from support.shell import call, told
from support.waiting import until

pytestmark = pytest.mark.xdist_group("a town with a phone")
WENT = (0, 1, 2)  # the phone's person was at these places
CANARY = "zanzibar-canary"
NOWHERE = "https://localhost:9"


@dataclass(frozen=True)
class Town:
    data: Dataset
    folder: Path
    url: str
    service: Running
    phone: Path  # after the campaign
    said: Running  # what `prirec device run` said in it

    @property
    def store(self) -> Path:
        return self.folder / "town.db"

    @property
    def authority(self) -> Path:
        return self.folder / "town.db.tls" / "authority.pem"

    def init(self, file: Path, *words: object, url: str | None = None):
        return call("device", "init", file, "--url", url or self.url, "--authority", self.authority, *words)


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        folder, phone = Path(made), Path(made) / "phone.db"
        data = write_town(folder / "town", people=54)  # and the phone: enough for a sum if four are slow
        assert call("recommender", "init", folder / "town.db", "--title", "Our town").exit_code == 0
        assert call("recommender", "publish", folder / "town.db", folder / "town").exit_code == 0
        others = Others(data, folder / "others", store=folder / "town.db")
        with running_service(folder) as (url, service):
            begun = Town(data, folder, url, service, phone, Running(None))
            assert begun.init(phone, "--home", home(data)).exit_code == 0
            assert call("device", "profile", phone, "age=31").exit_code == 0
            with Device.open(phone) as device:  # as if it had been told before there was a catalogue
                device.person.set_profile({"nickname": CANARY})
            for at in WENT:
                assert (
                    call("device", "visit", phone, data.places.ids[at], "--time", f"2024-05-0{at + 1}").exit_code == 0
                )
            others.enrol(url, authority=begun.authority.read_bytes())
            yield replace(begun, said=campaign(begun, others))


def campaign(town: Town, others: Others) -> Running:
    """Begun by the operator, with the phone's agent in the background."""
    with running(PRIREC, "device", "run", town.phone, cwd=town.folder) as agent:
        agent.heard("running")
        begun = told("recommender", "rounds", "begin", town.store, "--anyway", "--set", "floor=50", "--iterations", 1)
        assert (begun["people"], begun["rounds"], begun["terms"][0]["epsilon"]) == (55, 1, pytest.approx(1, rel=1e-3))
        others.take_part(authority=town.authority.read_bytes())
        agent.heard("a new model is here")
        assert agent.end(by=signal.SIGINT) == 0
    with running(PRIREC, "device", "run", town.phone, "--seconds", 3, cwd=town.folder) as again:
        again.heard("stopped")
        assert again.process.wait(timeout=60) == 0
    agent.lines += again.lines
    return agent


def home(data: Dataset) -> str:
    lat, lon = data.places.location[WENT[0]].tolist()
    return f"{lat},{lon}"


@pytest.fixture
def phone(town: Town, tmp_path: Path) -> Path:
    """The phone as it came out of the campaign, to do with as a test likes."""
    return Path(shutil.copy(town.phone, tmp_path / "phone.db"))


def test_the_phone_was_in_every_sum_of_the_campaign(town):
    sums = told("recommender", "rounds", "list", town.store)
    assert (sums["phase"], [one["sum"] for one in sums["sums"]]) == ("over", ["visits", "moments", "learning"])
    assert {(one["opened"], one["survivors"], one["rostered"]) for one in sums["sums"]} == {(True, 55, 55)}
    found = told("recommender", "status", town.store)
    assert (found["campaign"]["phase"], found["campaign"]["round"], found["people"]) == ("over", 1, 55)
    assert (found["unprocessed_messages"], found["queued_messages"], found["open_sums"]) == (0, 0, 0)
    assert "gradients" in call("recommender", "rounds", "list", town.store).stdout


def test_the_agent_says_what_it_did_and_nothing_about_the_person(town):
    said = "".join(town.said.lines)
    for words in (
        "a campaign has begun with this device",
        "added to a sum, masked and with noise, and paid for it: how popular places are",
        "helped to open a sum: the shared model",
        "a new model is here to recommend with",
        "stopped",
    ):
        assert words in said
    lat, lon = home(town.data).split(",")
    private = [CANARY, lat[:7], lon[:8], *(town.data.places.ids[at] for at in WENT)]
    assert not [word for word in private if word in said]


def test_status_tells_where_the_device_belongs_and_how_far_it_is(phone):
    found = told("device", "status", phone)
    belongs = found.pop("membership")
    assert found == {"visits": 3, "profile": ["age", "nickname"], "home": True}
    assert (belongs["title"], belongs["enrolled"], belongs["all_regions"]) == ("Our town", True, False)
    assert (belongs["campaign"], belongs["takes_part"], belongs["round"], belongs["rounds"]) == (0, True, 1, 1)
    assert (belongs["log_entries"], belongs["can_recommend"], belongs["places"] > 0) == (6, True, True)
    assert belongs["model"] == "campaign 0"
    text = shell.flat(call("device", "status", phone).stdout)
    assert "0: on the roster, 1 of 1 round over" in text
    assert CANARY not in text


def test_the_ledger_is_printed_against_the_persons_own_budget(phone):
    found = told("device", "privacy", phone)
    assert [(item["what"], item["releases"]) for item in found["items"]] == [
        ("how popular places are", 1), ("means and spreads of private columns", 1), ("the shared model", 1),
    ]  # fmt: skip
    assert found["budget"]["epsilon"] == 1
    assert 0.5 < found["lifetime"]["epsilon"] <= 1
    assert found["overspent"] is False
    assert "Budget: ε = 1 and δ = 1e-06 per user, for life" in shell.flat(call("device", "privacy", phone).stdout)


def test_what_a_visit_cost_is_recorded_with_it(tmp_path):
    file = tmp_path / "phone.db"
    Device.open(file).close()
    done = call("device", "visit", file, "p1", "--value", "spend=12.5", "--value", "with=friends|family")
    assert done.exit_code == 0
    (visit,) = json.loads(call("device", "export", file).stdout)["visits"]
    assert visit["context"] == {"spend": 12.5, "with": ["friends", "family"]}
    for wrong in (("p1", "--value", "spend"), ("--from", tmp_path / "visits.csv", "--value", "spend=1")):
        refused = call("device", "visit", file, *wrong)
        assert refused.exit_code == 2
    assert call("device", "visit", file, "p2", "--value", "spend=nan").exit_code == 3
    assert len(json.loads(call("device", "export", file).stdout)["visits"]) == 1


ARGUMENTS: dict[str, list[str]] = {"visit": ["p1"], "profile": ["age=31"]}


@pytest.mark.parametrize("command", ["visit", "profile", "status", "export", "recommend"])
def test_a_device_in_a_campaign_loads_neither_compiler_nor_scipy(phone, command):
    arguments = ["device", command, str(phone), *ARGUMENTS.get(command, [])]
    script = "import sys; from prirec.cli.main import app; app(sys.argv[1:], standalone_mode=False)\n"
    script += "print([name for name in ('numba', 'scipy', 'polars', 'asyncio', 'httpx') if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines()[-1] == "[]"


NO_NETWORK = """
import socket, sys
sys.modules["httpx"] = None
def refused(*_, **__):
    raise AssertionError("went online")
socket.socket.connect = socket.getaddrinfo = refused
from prirec.cli.main import run
run()
"""


def offline(*words: object) -> "subprocess.CompletedProcess[str]":
    """The program without a network, and without the extra that goes online."""
    return subprocess.run(
        [sys.executable, "-c", NO_NETWORK, *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )


def test_recommendations_are_made_offline_and_leave_out_what_was_visited(town, phone):
    done = offline("device", "recommend", phone, "-k", "5", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["distance_from"], len(found["places"])) == ("home", 5)
    places = [one["place"] for one in found["places"]]
    assert not set(places) & {town.data.places.ids[at] for at in WENT}
    assert [one["probability"] for one in found["places"]] == sorted(
        (one["probability"] for one in found["places"]), reverse=True
    )
    assert all(one["reasons"] and one["about"] for one in found["places"])


def test_a_home_that_was_not_given_is_not_called_one(phone, tmp_path):
    nomad = Path(shutil.copy(phone, tmp_path / "nomad.db"))
    with Device.open(nomad) as device:
        device.person.set_home(None)
    assert told_with_notes("device", "recommend", nomad, "-k", 3)["distance_from"] == "the middle of the visits"


def test_recommendations_are_a_table_with_reasons_from_where_the_person_is(town, phone):
    there = ",".join(map(str, town.data.places.location[20].tolist()))
    done = call("device", "recommend", phone, "--near", there, "--at", "2024-05-04T19:30", "-k", 3, columns=140)
    assert done.exit_code == 0
    assert "why" in done.stdout
    assert "km: from here" in done.stdout
    near = told_with_notes("device", "recommend", phone, "--near", there, "--radius-km", "0.001", "-k", 3)
    beyond = sum(one["distance_km"] > 0.001 for one in near["places"])
    assert beyond >= 2
    assert near["notes"] == [f"too few new places are within 0.001 km; {beyond} beyond are shown too"]


def told_with_notes(*words: object):
    return json.loads(call(*words, "--json").stdout)


@pytest.mark.parametrize(
    ("near", "message"),
    [
        ("-35.12345,-139.98765", messages.no_place_on_this_device_within(100)),
        ("139.98765,35.12345", messages.takes_a_point("--near")),
        ("here", messages.takes_a_point("--near")),
    ],
)
def test_a_point_that_makes_no_sense_is_refused_and_not_repeated(phone, near, message):
    done = call("device", "recommend", phone, "--near", near)
    assert (done.exit_code, done.stdout) == (2, "")
    assert shell.says(done.stderr, message)
    assert "12345" not in done.stderr


def exported(file):
    return json.loads(call("device", "export", file).stdout)


def test_what_does_not_fit_the_catalogue_is_refused_at_once(phone):
    unfit = call("device", "profile", phone, f"age={CANARY}")
    assert (unfit.exit_code, CANARY in unfit.stderr) == (3, False)
    assert shell.says(unfit.stderr, messages.in_column("age", messages.NUMBER_EXPECTED))
    assert told("device", "profile", phone)["profile"]["age"] == 31
    shown = call("device", "profile", phone, "gender=female").stdout
    assert shell.flat(shown).startswith("name value used")
    assert "hometown" in shown  # is asked for as well
    stored = exported(phone)
    for words, message in (
        (("profile", phone, f"nickname={CANARY}"), messages.in_column("nickname", messages.NOT_A_FEATURE)),
        (("profile", phone, "gender=3"), messages.in_column("gender", messages.WORD_EXPECTED)),
        (("profile", phone, f"gender={CANARY}"), messages.in_column("gender", messages.WORD_NOT_DECLARED)),
        (("visit", phone, CANARY), messages.PLACE_UNKNOWN),
    ):
        refused = call("device", *words)
        assert (refused.exit_code, refused.stdout, CANARY in refused.stderr) == (3, "", False)
        assert shell.says(refused.stderr, message)
    assert exported(phone) == stored


def test_visits_at_places_that_are_not_there_are_left_out_if_one_says_so(town, phone, tmp_path):
    table, here = tmp_path / "visits.csv", town.data.places.ids[WENT[0]]
    table.write_text(f"poi,time\n{here},2024-06-01\n{CANARY},2024-06-02\n{here},2024-06-03\n")
    before = len(exported(phone)["visits"])
    refused = call("device", "visit", phone, "--from", table)
    assert (refused.exit_code, CANARY in refused.stderr) == (3, False)
    assert shell.says(refused.stderr, "1 of 3 are at places " + messages.PLACE_UNKNOWN)
    assert len(exported(phone)["visits"]) == before
    done = call("device", "visit", phone, "--from", table, "--skip-unknown")
    assert (done.exit_code, done.stdout) == (0, "recorded 2\n")
    assert shell.says(done.stderr, "1 " + messages.LEFT_OUT_UNKNOWN)
    assert call("device", "visit", phone, here, "--skip-unknown").exit_code == 2
    table.write_text(f"poi,mood\n{here},{CANARY}\n")
    unused = call("device", "visit", phone, "--from", table)
    assert (unused.exit_code, CANARY in unused.stderr) == (3, False)
    assert shell.says(unused.stderr, messages.in_column("mood", messages.NOT_A_FEATURE))


def test_a_region_elsewhere_is_downloaded_whole(town, phone):
    far = ",".join(map(str, town.data.places.location[5].tolist()))
    done = call("device", "download", phone, "--near", far)
    assert (done.exit_code, done.stdout.startswith("downloaded ")) == (0, True)
    assert call("device", "recommend", phone, "--near", far).exit_code == 0


def test_an_export_is_everything_but_the_key_and_for_the_owner_alone(town, phone, tmp_path):
    target = tmp_path / "mine.json"
    assert call("device", "export", phone, "--out", target).exit_code == 0
    assert target.stat().st_mode & 0o777 == 0o600
    found = json.loads(target.read_text(encoding="utf-8"))
    assert found["profile"]["nickname"] == CANARY
    assert [one["place"] for one in found["visits"]] == [town.data.places.ids[at] for at in WENT]
    assert [one["what"] for one in found["spent"]] == [
        "how popular places are", "means and spreads of private columns", "the shared model",
    ]  # fmt: skip
    assert len(found["visits_in_sums"][0]["places"]) == len(WENT)
    with Device.open(phone) as device:
        assert device.person.membership().secret.hex() not in target.read_text(encoding="utf-8")
    assert call("device", "export", phone, "--out", target).exit_code == 2
    assert json.loads(call("device", "export", phone).stdout) == found


def joined(town: Town, file: Path) -> Path:
    assert town.init(file, "--home", home(town.data)).exit_code == 0
    with Device.open(file) as device:
        device.person.set_profile({"nickname": CANARY})
        device.person.record_visit(f"{CANARY}-place")
    return file


def people(town: Town) -> int:
    return int(told("recommender", "status", town.store)["people"])


def test_forgetting_asks_first_then_erases_and_leaves(town, tmp_path):
    before, file = people(town), joined(town, tmp_path / "tablet.db")
    assert people(town) == before + 1
    asked = call("device", "forget", file)
    assert (asked.exit_code, shell.says(asked.stderr, messages.FORGET_WITHOUT_YES)) == (2, True)
    assert told("device", "status", file)["visits"] == 1
    done = call("device", "forget", file, "--leave", "--yes")
    assert (done.exit_code, "has deleted this device too" in done.stdout, "not refunded" in done.stdout) == (
        0,
        True,
        True,
    )
    assert people(town) == before
    assert CANARY.encode() not in file.read_bytes()
    assert told("device", "status", file) == {"visits": 0, "profile": [], "home": False, "membership": None}


def test_what_was_spent_stays_spent_when_the_device_joins_again(town, phone):
    """Of a copy, so the recommender is not told: a copy is not another device."""
    spent = told("device", "privacy", phone)
    with Device.open(phone) as device:
        device.forget()
    assert town.init(phone, "--home", home(town.data)).exit_code == 0
    assert told("device", "privacy", phone) == spent
    assert call("device", "forget", phone, "--leave", "--yes").exit_code == 0


def test_a_recommender_that_is_away_keeps_nobody_from_erasing(town, tmp_path):
    file = joined(town, tmp_path / "tablet.db")
    moved(file, NOWHERE)
    insisted = call("device", "forget", file, "--leave", "--yes")
    assert (insisted.exit_code, told("device", "status", file)["visits"]) == (6, 1)
    done = call("device", "forget", file, "--yes")
    assert (done.exit_code, "could not be reached" in done.stdout) == (0, True)
    assert told("device", "status", file)["membership"] is None


def test_a_device_joins_only_the_recommender_whose_key_and_certificate_it_expects(town, tmp_path):
    file, key = tmp_path / "tablet.db", told("recommender", "status", town.store)["fingerprint"]
    refusals = {
        ("--fingerprint", "ab" * 16): (6, messages.ANOTHER_KEY_THAN_THE_FINGERPRINT),
        ("--fingerprint", key[:8]): (2, messages.digits_of_a_fingerprint(16)),
        ("--home", "999.5,1.5"): (2, messages.takes_a_point("--home")),
        ("--epsilon", "0"): (2, messages.not_positive(".*epsilon.*")),
    }
    for words, (code, message) in refusals.items():
        done = town.init(file, *words)
        assert (done.exit_code, shell.says(done.stderr, message)) == (code, True), done.stderr
    for url in (
        "http://localhost:1",
        "https://",
        "https://a:b@c",
        "https://x:99999",
        "https://x?",
        "https://x\n",
        "ftp://x",
        NOWHERE,
    ):
        assert town.init(file, url=url).exit_code == (6 if url == NOWHERE else 2), url
    untrusted = call("device", "init", file, "--url", town.url)
    assert (untrusted.exit_code, shell.says(untrusted.stderr, messages.CERTIFICATE_NOT_TRUSTED)) == (6, True)
    assert call("device", "init", file, "--url", town.url, "--authority", town.store).exit_code == 2
    assert told("device", "status", file)["membership"] is None
    spaced = ":".join(key[at : at + 2] for at in range(0, 32, 2)).upper()
    done = town.init(file, "--fingerprint", spaced, "--epsilon", "0.5", "--period-days", "30")
    assert (done.exit_code, key in done.stdout) == (0, True)
    budget = told("device", "privacy", file)["budget"]
    assert (budget["epsilon"], budget["delta"], budget["period_days"]) == (0.5, 1e-6, 30)
    again = town.init(file)
    assert (again.exit_code, shell.says(again.stderr, messages.IN_A_DEPLOYMENT_ALREADY)) == (5, True)
    assert call("device", "forget", file, "--leave", "--yes").exit_code == 0


def test_a_restored_copy_goes_on_and_who_has_spent_everything_stays_out(town, phone):
    """The copy of a store serves at another port; whom the first campaign cost everything enters no sum any more."""
    copy, files = phone.with_name("copy.db"), town.authority.parent
    assert call("recommender", "backup", town.store, copy).exit_code == 0
    keys = ("--certificate", files / "server.pem", "--key", files / "server.key", "--coming", 600)
    with serving(phone.parent, *keys, store="copy.db") as url:
        moved(phone, url)
        assert told("recommender", "rounds", "begin", copy, "--anyway", "--set", "floor=50")["campaign"] == 1
        with running(PRIREC, "device", "run", phone, cwd=phone.parent) as agent:
            agent.heard("a campaign has begun with this device")
            assert shell.says(agent.heard("stayed out of a sum"), messages.BUDGET_DOES_NOT_COVER_A_ROUND)
            assert agent.end() == 0
    assert told("device", "privacy", phone) == told("device", "privacy", town.phone)
    assert told("device", "privacy", phone)["items"][0]["more"] == 0
    assert call("device", "recommend", phone).exit_code == 0  # with the model that it has


def moved(file: Path, url: str) -> None:
    with Device.open(file) as device, device.store.transaction() as rows:
        rows.execute("UPDATE membership SET url = ?", (url,))


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_the_agent_stops_without_waiting_for_an_answer_to_its_poll(town, phone, by):
    trust = tls_context(town.authority.read_bytes())
    with running(PRIREC, "device", "run", phone, cwd=town.folder) as agent:
        port = json.loads(town.service.heard('"serving"'))["operator_port"]
        figures = f"https://localhost:{port}/metrics"
        until(lambda: "prirec_waiting_polls 1.0" in httpx.get(figures, verify=trust).text, every=0.1)
        town.service.process.send_signal(signal.SIGSTOP)  # it answers nobody any more
        try:
            assert agent.end(by=by) == 0
        finally:
            town.service.process.send_signal(signal.SIGCONT)
    assert agent.lines[-1].endswith("stopped\n")


@pytest.mark.long
def test_an_agent_outlives_a_recommender_that_is_away_and_new_keys(tmp_path):
    """On a port of its own, the service ends, gets new keys and comes back; the phone's session is of the old one."""
    folder = tmp_path
    assert call("recommender", "init", folder / "town.db", "--title", "Our town").exit_code == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = (PRIREC, "recommender", "serve", "town.db", "--port", port)
    init = ("device", "init", folder / "phone.db", "--url", f"https://localhost:{port}")
    with running(*serve, cwd=folder) as service:
        service.heard('"serving"')
        assert call(*init, "--authority", folder / "town.db.tls" / "authority.pem").exit_code == 0
        with running(PRIREC, "device", "run", "phone.db", cwd=folder) as agent:
            agent.heard("running")
            assert service.end() == 0
            agent.heard("trying again from time to time")
            assert call("recommender", "keys", "rotate", folder / "town.db").exit_code == 0
            with running(*serve, cwd=folder) as again:
                again.heard('"serving"')
                agent.heard("the recommender answers again")
                assert again.end() == 0
            assert agent.end() == 0
