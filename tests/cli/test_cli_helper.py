"""prirec helper: what the second operator does, and how a recommender is told of it."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from prirec.recommender.store import Store
from prirec.recommender.tls import Certificates, host_names
from prirec.sharing.keys import SigningKey
from support import messages, shell

call, told = partial(shell.call, "helper"), partial(shell.told, "helper")
recommender = partial(shell.call, "recommender")


def assert_refused(done: Any, words: str, *, code: int = 2) -> None:
    assert done.exit_code == code
    assert shell.says(done.stderr, words)


def key_of(store: Path) -> str:
    with Store.open(store) as opened:
        return SigningKey(opened.founding().identity).public.hex()


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    call("init", tmp_path / "helper.db", "--host", "helper.example")
    return tmp_path / "helper.db"


@pytest.fixture
def town(tmp_path: Path, helper: Path) -> Path:
    """A deployment that has this helper."""
    authority = Certificates.beside(str(helper)).authority
    store = tmp_path / "town.db"
    at = ("--helper", "https://helper.example:8443", "--helper-key", key_of(helper), "--helper-authority", authority)
    done = recommender("init", store, "--title", "Our town", *at, columns=300)
    assert key_of(helper) in done.stdout
    assert f"--recommender-key {key_of(store)}" in done.stdout
    return store


def paired(town: Path, helper: Path) -> str:
    with Store.open(town) as opened:
        deployment = opened.founding().deployment.hex()
    call("pair", helper, "--deployment", deployment, "--recommender-key", key_of(town))
    return deployment


def test_init_makes_keys_and_says_what_the_recommender_needs(tmp_path: Path) -> None:
    done = call("init", tmp_path / "helper.db", columns=200)
    with Store.open(tmp_path / "helper.db") as opened:
        founding = opened.founding()
    assert founding.role == "helper"
    assert SigningKey(founding.identity).public.hex() in done.stdout
    assert founding.identity.hex() not in done.stdout
    assert str(Certificates.beside(str(tmp_path / "helper.db")).authority) in done.stdout


def test_a_helper_is_paired_once(town: Path, helper: Path) -> None:
    assert told("status", helper)["deployment"] is None
    deployment = paired(town, helper)
    found = told("status", helper)
    assert (found["deployment"], found["recommender"]) == (deployment, key_of(town))
    assert (found["entries"], found["signed"], found["campaign"]) == (0, 0, None)
    assert found["fingerprint"] == key_of(helper)
    assert "follows 0 log entries" in call("status", helper, columns=200).stdout
    assert paired(town, helper) == deployment  # the same again is no harm
    other = call("pair", helper, "--deployment", "ab" * 16, "--recommender-key", key_of(town))
    assert_refused(other, messages.OTHER_PAIR)


def test_a_recommender_says_how_far_its_helper_has_signed(town: Path, helper: Path) -> None:
    found = json.loads(recommender("status", town, "--json").stdout)["helper"]
    assert found == {"url": "https://helper.example:8443", "fingerprint": key_of(helper), "signed": 0, "time": 0}
    assert "0 entries, never" in recommender("status", town, columns=200).stdout


def test_each_operator_has_commands_of_its_own(town: Path, helper: Path) -> None:
    assert_refused(call("status", town), messages.other_role("recommender"), code=5)
    assert_refused(recommender("status", helper), messages.other_role("helper"), code=5)


def test_a_token_for_the_operators_page_is_printed_once_and_renewed(town: Path, helper: Path) -> None:
    for store, command in ((helper, call), (town, recommender)):
        one, other = (token_in(command("token", store).stdout) for _ in range(2))
        with Store.open(store) as opened:
            assert opened.logins.log_in(one, now=0) is None
            assert opened.logins.log_in(other, now=0)


def test_each_init_prints_a_token_that_opens_the_page(tmp_path: Path) -> None:
    for command, words, name in ((call, (), "helper"), (recommender, ("--title", "Our town"), "town")):
        store = tmp_path / name
        token = token_in(command("init", store, *words).stdout)
        with Store.open(store) as opened:
            assert opened.logins.log_in(token, now=0)


def token_in(printed: str) -> str:
    (line,) = (line for line in printed.splitlines() if line.startswith("token for"))
    return line.split()[-1]


def test_a_helpers_certificate_is_renewed_under_the_same_authority(helper: Path) -> None:
    files = Certificates.beside(str(helper))
    held = {file: file.read_bytes() for file in (files.authority, files.certificate, files.key)}
    with Store.open(helper) as store:
        before = store.founding()
    done = call("certificate", helper)
    assert (done.exit_code, str(files.certificate) in done.stdout) == (0, True)
    assert [file.read_bytes() == was for file, was in held.items()] == [True, False, False]
    assert host_names(files.certificate) >= {"localhost", "127.0.0.1"}
    with Store.open(helper) as store:
        assert store.founding() == before


def test_a_helper_that_is_not_paired_serves_nobody(helper: Path) -> None:
    assert_refused(call("serve", helper), messages.NOT_PAIRED)


def test_a_copy_of_a_helper_is_whole(town: Path, helper: Path, tmp_path: Path) -> None:
    paired(town, helper)
    call("backup", helper, tmp_path / "copy.db")
    assert told("status", tmp_path / "copy.db") == told("status", helper)


def test_an_address_and_a_key_belong_together(tmp_path: Path, helper: Path) -> None:
    init = partial(recommender, "init", tmp_path / "other.db", "--title", "t")
    at = ("--helper", "https://helper.example:8443")
    assert_refused(init(*at), messages.HELPER_AND_KEY)
    assert_refused(init(*at, "--helper-key", "ab"), messages.WHOLE_KEY)
    assert_refused(init("--helper", "http://helper.example", "--helper-key", key_of(helper)), messages.HELPER_ADDRESS)
    assert not (tmp_path / "other.db").exists()


def test_what_is_no_certificate_of_the_helpers_authority_founds_nothing(tmp_path: Path, helper: Path) -> None:
    """A deployment is founded once: with such a file its operators could never speak to each other."""
    os.mkfifo(tmp_path / "pipe")
    init = partial(recommender, "init", tmp_path / "other.db", "--title", "t", "--helper-key", key_of(helper))
    at = ("--helper", "https://helper.example:8443", "--helper-authority")
    key = helper.with_name(f"{helper.name}.tls") / "authority.key"
    assert_refused(init(*at, key), messages.NO_CERTIFICATE)
    assert_refused(init(*at, helper), messages.NO_CERTIFICATE_FILE)
    for missing in ("pipe", "none.pem"):
        assert_refused(init(*at, tmp_path / missing), messages.AUTHORITY_FILE_MISSING)
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("rest", ["a:99999", "a b", "[::1", "a/path", "name@a", "a?b"])
def test_an_address_that_nobody_can_call_founds_nothing(tmp_path: Path, helper: Path, rest: str) -> None:
    init = partial(recommender, "init", tmp_path / "other.db", "--title", "t", "--helper-key", key_of(helper))
    assert_refused(init("--helper", f"https://{rest}"), messages.HELPER_ADDRESS)
    assert not (tmp_path / "other.db").exists()


def test_a_window_is_a_length_of_time(town: Path) -> None:
    assert_refused(recommender("rounds", "begin", town, "--window", "soon"), messages.LENGTH_OF_TIME)
