"""prirec recommender: what an operator does, and what is refused. The service runs in a process of its own."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from prirec.data.write_folder import write_folder
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from prirec.recommender.operator import LONGEST_REASON
from prirec.recommender.store import PostedMessage, Store
from prirec.recommender.tls import Certificates
from prirec.sharing.keys import SigningKey
from support import messages, shell
from support.cities import small_city
from support.founded_deployment import folder, store
from support.postgres import GROUP, postgres
from support.running_deployment import PRIREC, running, serving

__all__ = ["folder", "postgres", "store"]
call, told = partial(shell.call, "recommender"), partial(shell.told, "recommender")
CODE = "sesame-canary"


@pytest.fixture
def city(tmp_path: Path) -> Path:
    write_folder(small_city(people=20, places=15, records=60), tmp_path / "city")
    return tmp_path / "city"


def secrets_of(store: Path):
    with Store.open(store) as opened:
        return opened.founding()


def hosts_of(store: Path) -> list[str]:
    certificate = x509.load_pem_x509_certificate(Certificates.beside(str(store)).certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def test_init_makes_keys_for_their_owner_alone_and_says_what_devices_are_handed(folder):
    done = call("init", folder / "town.db", "--title", "Our town", "--host", "recommender.example", columns=200)
    founding, files = secrets_of(folder / "town.db"), Certificates.beside(str(folder / "town.db"))
    assert founding.title == "Our town"
    assert SigningKey(founding.identity).public.hex() in done.stdout
    assert str(files.authority) in done.stdout
    assert founding.identity.hex() not in done.stdout
    secret = [folder / "town.db", files.key, files.folder / "authority.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    assert stat.S_IMODE(files.folder.stat().st_mode) == 0o700
    assert hosts_of(folder / "town.db") == ["recommender.example", "localhost", "127.0.0.1", "::1"]


def test_a_deployment_is_founded_once_and_keeps_its_keys(store):
    before = secrets_of(store), {file.name: file.read_bytes() for file in Path(f"{store}.tls").iterdir()}
    again = call("init", store, "--title", "another")
    assert (again.exit_code, again.stdout) == (5, "")
    assert shell.says(again.stderr, messages.STORE_HAS_A_DEPLOYMENT)
    assert (secrets_of(store), {file.name: file.read_bytes() for file in Path(f"{store}.tls").iterdir()}) == before


@pytest.mark.parametrize("title", ["", "  ", "two\nlines", "x" * 201, "\x1b[2J"])
def test_a_title_that_no_device_could_show_is_refused_before_anything_is_made(folder, title):
    done = call("init", folder / "town.db", "--title", title)
    assert (done.exit_code, list(folder.iterdir())) == (2, [])


def test_keys_of_somebody_else_are_not_written_over(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "authority.key").write_text("precious")
    done = call("init", folder / "town.db", "--title", "Our town", "--certificates", folder / "mine")
    assert (done.exit_code, (folder / "mine" / "authority.key").read_text()) == (2, "precious")
    with pytest.raises(Exception, match=messages.STORE_WITHOUT_A_DEPLOYMENT):
        secrets_of(folder / "town.db")


def test_status_counts_in_the_singular_and_the_plural(store):
    said = []
    for at in range(2):
        with Store.open(store) as opened:
            opened.enrol(bytes([at]) * 32, day=0)
        said.append(call("status", store).stdout.splitlines()[0])
    assert ["1 person enrolled" in said[0], "2 people enrolled" in said[1]] == [True, True]


def test_an_operator_excludes_a_blamed_device_and_readmits_it(store):
    name, other = bytes([7]) * 32, bytes([8]) * 32
    with Store.open(store) as opened:
        opened.enrol(name, day=0)
        opened.enrol(other, day=0)
        opened.blame([(name, Round(opened.founding().deployment, "popularity", 2**16), "2 of the shares are wrong")])
    before = call("status", store, columns=200)
    assert shell.says(before.stderr, messages.DEVICE_BROKE_THE_PROTOCOL)
    listed = told("exclusions", store, "--json")["devices"]
    assert [(one["device"], one["times"], one["campaign"], one["excluded"]) for one in listed] == [
        (name.hex(), 1, 1, False)
    ]
    done = call("exclude", store, name.hex(), "--reason", "wrong shares", columns=200)
    assert (done.exit_code, done.stderr) == (0, "")
    found = told("status", store, "--json")
    assert (found["people"], found["excluded"], found["blamed"]) == (1, 1, 0)
    shown = call("exclusions", store, columns=200).stdout
    assert name.hex() in shown
    assert "wrong shares" in shown
    assert call("readmit", store, name.hex()).exit_code == 0
    (record,) = told("exclusions", store, "--json")["devices"]
    assert (record["excluded"], [one["reason"] for one in record["exclusions"]]) == (False, ["wrong shares"])
    assert told("status", store, "--json")["people"] == 2


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (("exclude", ..., "abc", "--reason", "x"), 2, messages.NOT_A_DEVICE_NAME),
        (("exclude", ..., "zz" * 32, "--reason", "x"), 2, messages.NOT_A_DEVICE_NAME),
        (("exclude", ..., "00" * 32, "--reason", "x"), 2, messages.NO_SUCH_DEVICE),
        (("exclude", ..., "07" * 32, "--reason", "two\nlines"), 2, messages.reason_in_one_line(LONGEST_REASON)),
        (("exclude", ..., "08" * 32, "--reason", "x"), 2, messages.EXCLUDED_ALREADY),
        (("readmit", ..., "07" * 32), 2, messages.NOT_EXCLUDED),
    ],
)
def test_an_exclusion_that_cannot_be_meant_is_refused(store, words, code, why):
    with Store.open(store) as opened:
        for at in (7, 8):
            opened.enrol(bytes([at]) * 32, day=0)
        opened.exclude(bytes([8]) * 32, reason="x", day=0)
        before = opened.exclusions()
        done = call(*(store if word is ... else word for word in words))
        assert (done.exit_code, opened.exclusions()) == (code, before)
    assert shell.says(done.stderr, why)


def test_a_port_that_has_none_after_it_for_the_operator_is_refused(store):
    done = call("serve", store, "--port", 65_535)
    assert done.exit_code == 2
    assert shell.says(done.stderr, messages.NO_PORT_AFTER_IT)


COMMANDS = [
    ("status",),
    ("exclusions",),
    ("rounds", "list"),
    ("rounds", "begin"),
    ("rounds", "end"),
    ("serve",),
    ("keys", "rotate"),
]


@pytest.mark.parametrize(
    "words", [*COMMANDS, ("publish", ..., "data"), ("backup", ..., "copy.db"), ("readmit", ..., "07" * 32)], ids=str
)
def test_commands_do_not_create_a_missing_store(folder, words):
    store = folder / "none.db"
    named = [store if word is ... else word for word in (words if ... in words else (*words, ...))]
    done = call(*named)
    assert (done.exit_code, list(folder.iterdir())) == (5, [])
    assert shell.says(done.stderr, messages.no_store(store.name, "recommender", "Recommender"))


@pytest.mark.parametrize("words", ["mysql://town", "postgresql://nobody@127.0.0.1:9/none?connect_timeout=2"])
def test_an_unknown_or_unreachable_database_is_reported_without_its_address(words):
    done = call("status", words)
    assert done.exit_code == (2 if words.startswith("mysql") else 5)
    assert "town" not in done.stderr
    assert "nobody" not in done.stderr


def test_a_catalogue_is_published_without_a_look_at_people(store, city):
    for file in ("users.csv", "visits.csv"):
        (city / file).write_text("not,a\ntable")
    found = told("publish", store, city)
    assert found["places"] == 15
    assert {"distance from home", "distance from own visits", "time"} <= set(found["features"]["visit"])
    assert set(found["features"]["person"]) == {"age", "friend_count", "gender", "hometown", "spending", "home area"}
    assert (told("status", store)["places"], told("status", store)["log_entries"]) == (15, 1)
    text = shell.flat(call("publish", store, city).stdout)
    assert "published 15 places" in text
    assert "which never leave a device" in text


def test_settings_that_only_a_simulation_may_have_are_refused(store, city):
    told("publish", store, city)
    assert call("publish", store, city, "--set", "features.averages=['price']").exit_code == 2  # no column of visits
    assert call("rounds", "begin", store, "--preset", "rounds").exit_code == 4
    assert told("status", store)["log_entries"] == 1


def test_with_too_few_devices_no_campaign_begins_and_the_error_states_the_floor(store, city):
    assert shell.says(call("rounds", "begin", store, "--set", "floor=50").stderr, messages.NO_CATALOGUE)
    told("publish", store, city)
    done = call("rounds", "begin", store, "--set", "floor=50")
    assert (done.exit_code, done.stdout) == (4, "")
    assert shell.says(done.stderr, messages.joined(messages.too_few_enrolled(0), messages.no_sum_over_fewer_than(50)))
    assert call("rounds", "begin", store, "--set", "floor=2").exit_code == 4
    assert (told("status", store)["log_entries"], told("rounds", "list", store)["sums"]) == (1, [])
    assert "no campaign has begun yet" in call("rounds", "list", store).stdout


def test_a_campaign_that_noise_would_drown_begins_only_if_one_says_so(store, city):
    told("publish", store, city)
    with Store.open(store) as opened:
        for at in range(60):
            opened.enrol(bytes([at]) * 32, day=0)
    done = call("rounds", "begin", store, "--set", "floor=50")
    assert (done.exit_code, done.stdout, shell.says(done.stderr, messages.would_drown(60))) == (4, "", True)
    assert told("rounds", "list", store)["campaign"] is None
    begun = told("rounds", "begin", store, "--set", "floor=50", "--anyway")
    assert (begun["campaign"], begun["usable"]) == (0, False)
    assert begun["noise"]["people"] > 1000
    assert call("rounds", "end", store).exit_code == 0
    assert "Noise in the shared model moves scores by" in shell.flat(
        call("rounds", "begin", store, "--set", "floor=50", "--anyway").stdout
    )


def test_a_starting_model_is_published_with_a_warning_and_shown_in_the_status(store, tmp_path):
    city, run = tmp_path / "town", tmp_path / "run"
    assert shell.call("data", "make", city, "--people", 60, "--places", 20, "--records", 600).exit_code == 0
    words = ("--preset", "rounds", "--set", "data.keep=all", "--set", "floor=50", "--iterations", 1, "--out", run)
    assert shell.call("train", city, *words).exit_code == 0
    done = call("publish", store, city, "--start", run)
    assert "starting model published (preset rounds, without a privacy budget)" in shell.flat(done.stdout)
    assert shell.says(done.stderr, messages.START_IS_PUBLIC)
    assert told("status", store)["start"] == "preset rounds, without a privacy budget"
    assert told("publish", store, city, "--start", run)["start"] == "preset rounds, without a privacy budget"
    again = call("publish", store, city)
    assert shell.says(again.stderr, messages.START_OF_BEFORE)
    entries = told("status", store)["log_entries"]
    refused = call("publish", store, city, "--start", tmp_path / "nowhere")
    assert (refused.exit_code, told("status", store)["log_entries"]) == (5, entries)
    narrow = call("publish", store, city, "--start", run, "--set", "features.areas=0")
    assert (narrow.exit_code, told("status", store)["log_entries"]) == (2, entries)
    assert shell.says(narrow.stderr, messages.start_with_unknown("people", "home area"))


def test_a_campaign_is_ended_while_one_is_under_way(store, city):
    told("publish", store, city)
    assert shell.says(call("rounds", "end", store).stderr, messages.NO_CAMPAIGN_TO_END)
    with Store.open(store) as opened:
        for at in range(60):
            opened.enrol(bytes([at]) * 32, day=0)
    assert call("rounds", "begin", store, "--anyway", "--set", "floor=50").exit_code == 0
    assert "in its phase visits" in call("rounds", "end", store).stdout
    assert told("rounds", "list", store)["phase"] == "failed"
    assert call("rounds", "end", store).exit_code == 4


def test_status_in_json_always_has_the_same_keys(store):
    names = "title deployment fingerprint places start campaign quality averages helper promise rotated next_key people"
    sums = "certificate_until log_entries documents rounds open_sums unprocessed_messages queued_messages blamed"
    assert told("status", store).keys() == {*names.split(), *sums.split(), "excluded"}
    shown = call("status", store, columns=200).stdout
    assert SigningKey(secrets_of(store).identity).public.hex() in shown
    assert secrets_of(store).identity.hex() not in shown
    assert "none published yet" in shown


def test_a_certificate_near_its_end_is_noted(store):
    files = Certificates.beside(str(store))
    files.renew(hosts=[], now=datetime.now(UTC) - timedelta(days=780))
    noted = call("status", store)
    assert shell.says(noted.stderr, messages.certificate_of_the_server(r"ends in 4\d days"))
    files.renew(hosts=[], now=datetime.now(UTC))
    assert call("status", store).stderr == ""


def with_mail(store: Path) -> None:
    """A round that is open, with a posted message and a queued one."""
    with Store.open(store) as opened:
        one = Round(opened.founding().deployment, "linear", 1, 0, 0)
        message = (b"\2" * 32, one, b"another sealed canary")
        opened.deliver([message], persists=[Persist(one, Stage.ENTERED, b"\1" * 32)], inviting=[message[:2]])
        opened.post_messages([PostedMessage(one, b"\2" * 32, b"a sealed canary")])


def test_a_backup_is_whole_and_private_and_keeps_no_sealed_box(store, city, folder):
    told("publish", store, city)
    with_mail(store)
    copy = folder / "copy.db"
    with Store.open(store):  # in use, as by a service
        done = call("backup", store, copy)
    assert (done.exit_code, "its log has 1 entry\n" in done.stdout) == (0, True)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert b"sealed canary" not in copy.read_bytes()
    assert b"sealed canary" in store.read_bytes()
    assert secrets_of(copy) == secrets_of(store)
    before, after = told("status", store), told("status", copy)
    left = ("unprocessed_messages", "queued_messages")
    assert [found[name] for found in (before, after) for name in left] == [1, 1, 0, 0]
    same = ("log_entries", "documents", "people", "open_sums", "fingerprint")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert {file.name for file in folder.iterdir()} == {"town.db", "town.db.tls", "copy.db"}


def test_a_backup_is_not_written_over_another_nor_made_of_a_database(store, folder):
    (folder / "copy.db").write_text("an older copy")
    assert call("backup", store, folder / "copy.db").exit_code == 2
    assert (folder / "copy.db").read_text() == "an older copy"
    refused = call("backup", "postgresql://operator:pass@db/town", folder / "other.db")
    assert (refused.exit_code, shell.says(refused.stderr, messages.DATABASE_COPIED_BY_ITS_OWN_MEANS)) == (2, True)
    assert "pass" not in refused.stderr


def test_rotation_changes_the_sessions_and_the_certificate_and_neither_identity_nor_authority(store):
    files, before = Certificates.beside(str(store)), secrets_of(store)
    held = {path: path.read_bytes() for path in (files.key, files.certificate, files.authority)}
    assert call("keys", "rotate", store).exit_code == 0
    after = secrets_of(store)
    assert (after.identity, after.deployment, after.title) == (before.identity, before.deployment, before.title)
    assert after.token_key != before.token_key
    assert files.authority.read_bytes() == held[files.authority]
    assert files.key.read_bytes() != held[files.key]
    assert hosts_of(store) == ["recommender.example", "localhost", "127.0.0.1", "::1"]
    issuer = x509.load_pem_x509_certificate(files.authority.read_bytes())
    x509.load_pem_x509_certificate(files.certificate.read_bytes()).verify_directly_issued_by(issuer)
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert {file.name for file in files.folder.iterdir()} == {
        "authority.pem", "authority.key", "server.pem", "server.key"
    }  # fmt: skip


def test_rotation_of_one_leaves_the_other(store):
    files, before = Certificates.beside(str(store)), secrets_of(store)
    held = files.certificate.read_bytes()
    assert call("keys", "rotate", store, "--only", "sessions").exit_code == 0
    assert (files.certificate.read_bytes() == held, secrets_of(store) == before) == (True, False)
    before = secrets_of(store)
    assert call("keys", "rotate", store, "--only", "certificate", "--host", "10.0.0.7").exit_code == 0
    assert (secrets_of(store), hosts_of(store)) == (before, ["localhost", "10.0.0.7", "127.0.0.1", "::1"])
    assert call("keys", "rotate", store, "--only", "sessions", "--host", "10.0.0.7").exit_code == 2


@GROUP
def test_a_database_of_postgresql_is_founded_published_and_looked_at_like_a_file(postgres, city, folder):
    with postgres.lent() as url:
        words = ("init", url, "--title", "Our town", "--certificates", folder / "tls")
        assert call(*words).exit_code == 0
        assert call(*words).exit_code == 5
        assert told("publish", url, city)["places"] == 15
        found = told("status", url, "--certificates", folder / "tls")
        assert (found["title"], found["log_entries"], found["certificate_until"] is None) == ("Our town", 1, False)
        assert call("keys", "rotate", url, "--certificates", folder / "tls").exit_code == 0
        assert call("rounds", "begin", url).exit_code == 4


def answer(port: int, authority: Path, *, highest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    context = ssl.create_default_context(cafile=authority)
    context.maximum_version = highest
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as line,
        context.wrap_socket(line, server_hostname="recommender.example") as safe,
    ):
        safe.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return b"".join(iter(lambda: safe.recv(4096), b""))


@pytest.mark.parametrize(("workers", "by"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_the_service_speaks_tls_1_3_only_and_ends_in_good_order(store, folder, workers, by):
    code = written(folder / "code", CODE)
    words = (PRIREC, "recommender", "serve", store, "--port", 0, "--workers", workers, "--code-file", code)
    with running(*words, cwd=folder) as service:
        port = json.loads(service.heard('"serving"'))["port"]
        authority = Certificates.beside(str(store)).authority
        assert b'"healthy":true' in answer(port, authority)
        with pytest.raises(OSError, match=messages.Foreign.TLS_ALERT):
            answer(port, authority, highest=ssl.TLSVersion.TLSv1_2)
        assert service.end(by=by) == 0
    assert all(json.loads(line)["event"] for line in service.lines)
    assert "sesame-canary" not in "".join(service.lines)


def test_what_keeps_the_service_from_starting_is_one_error(store, folder, monkeypatch):
    monkeypatch.setattr("prirec.recommender.server.Server", None)  # one that starts all the same would not end
    other = folder / "other"
    other.mkdir()
    Certificates(other).make(title="x", hosts=[], now=datetime.now(UTC))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refusals = {
            ("--certificate", other / "server.pem"): (2, messages.CERTIFICATE_WITHOUT_ITS_KEY),
            ("--certificate", other / "server.pem", "--key", f"{store}.tls/server.key"): (
                5, messages.certificate_or_key_unreadable("server.pem"),
            ),
            ("--certificate", folder / "no.pem", "--key", folder / "no.key"): (
                5, messages.certificate_or_key_unreadable("no.pem"),
            ),
            ("--code-file", written(folder / "long", "x" * 101)): (2, messages.code_length(100)),
            ("--code-file", written(folder / "empty", "")): (2, messages.NO_ENROLMENT_CODE),
            ("--code-file", written(folder / "two", "one\ntwo\n")): (2, messages.NO_ENROLMENT_CODE),
            ("--code-file", folder / "absent"): (5, "No such file"),
            ("--port", port): (2, messages.ADDRESS_TAKEN),
            ("--workers", "0"): (2, messages.is_at_least("--workers", 1)),
        }  # fmt: skip
        for words, (code, message) in refusals.items():
            done = call("serve", store, *words)
            assert (done.exit_code, done.stdout) == (code, ""), done.stderr
            assert shell.says(done.stderr, message)


def test_a_damaged_store_and_what_is_none_are_refused_in_one_line(store, folder, city):
    assert call("publish", store, city).exit_code == 0
    whole = store.read_bytes()
    document = whole.index(b"prirec offer") + 20  # a byte of one, where SQLite notices nothing
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "page").write_bytes(whole[:4096] + bytes(4096) + whole[8192:])
    (folder / "cut").write_bytes(whole[: len(whole) // 2])
    (folder / "document").write_bytes(whole[:document] + bytes([whole[document] ^ 1]) + whole[document + 1 :])
    wrong = dict.fromkeys(("pipe", "folder"), messages.NO_REGULAR_FILE)
    wrong |= {"page": messages.FILE_DAMAGED, "cut": messages.FILE_DAMAGED, "document": messages.DOCUMENT_DAMAGED}
    for name, message in wrong.items():
        done = call("status", folder / name)
        assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (5, "", 1), name
        assert shell.says(done.stderr, message)


def test_a_device_without_the_enrolment_code_is_refused(store, folder):
    init = ("device", "init", folder / "phone.db", "--authority", f"{store}.tls/authority.pem", "--url")
    right, wrong = written(folder / "code", f"{CODE}\r\n"), written(folder / "wrong", "wrong-canary")
    with serving(folder, "--code-file", right) as url:
        refused = shell.call(*init, url, "--code-file", wrong)
        assert (refused.exit_code, refused.stdout) == (6, "")
        assert shell.says(refused.stderr, messages.AUTH)
        assert "canary" not in refused.stderr
        assert shell.told("device", "status", folder / "phone.db")["membership"] is None
        assert shell.call(*init, url, "--code-file", "-", typed=f"{CODE}\n").exit_code == 0
        assert told("status", store)["people"] == 1


@pytest.mark.parametrize("words", [("device", "init", "--code"), ("recommender", "serve", "--enrolment-code")])
def test_no_code_is_taken_from_the_command_line(words):
    done = shell.call(*words, CODE)
    assert done.exit_code == 2
    assert shell.says(done.stderr, messages.no_such_option(words[-1]))


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


MISSING = ("fastapi", "uvicorn", "prometheus_client", "psycopg", "httpx", "starlette")


def without_extras(*words: object) -> "subprocess.CompletedProcess[str]":
    """The program as it is installed without extras."""
    script = f"import sys; sys.modules.update(dict.fromkeys({MISSING!r})); from prirec.cli.main import run; run()"
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.long
def test_without_the_extra_the_service_names_it_and_all_else_works(folder, city):
    store = folder / "town.db"
    assert without_extras("recommender", "init", store, "--title", "Our town").returncode == 0
    assert without_extras("recommender", "publish", store, city).returncode == 0
    for words in (("serve", store), ("status", "postgresql://town")):
        done = without_extras("recommender", *words)
        assert (done.returncode, done.stdout) == (2, "")
        assert shell.says(done.stderr, messages.POSTGRES_DRIVER_MISSING)
    assert without_extras("recommender", "status", store).returncode == 0
    assert "recommender" in without_extras("--help").stdout


def test_a_city_without_the_extras_says_what_to_install_before_anything_is_made(folder):
    done = without_extras("city", "up", "--devices", 60, "--rounds", 1, "--out", folder / "town")
    assert (done.returncode, done.stdout, (folder / "town").exists()) == (2, "", False)
    assert shell.says(done.stderr, messages.extra_missing("recommender,device"))
