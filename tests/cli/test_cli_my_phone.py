"""My phone from the command line: served for rehearsal, or written into a folder that somebody else hosts."""

import json
import ssl
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

from prirec.pages import BUILT
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from support import messages, shell
from support.running_deployment import PRIREC, running

recommender = partial(shell.call, "recommender")
KEYS = ("--recommender-key", "ab" * 32, "--helper-key", "cd" * 32)


def test_the_page_is_served_for_rehearsal_on_an_origin_of_its_own(tmp_path: Path) -> None:
    """Its headers name the recommender, its link has both fingerprints, and the recommender lets its origin in."""
    shell.call("helper", "init", tmp_path / "helper.db")
    with Store.open(tmp_path / "helper.db") as helper:
        key = SigningKey(helper.founding().identity).public.hex()
    store = tmp_path / "town.db"
    recommender("init", store, "--title", "Town", "--helper", "https://helper.example", "--helper-key", key)
    with running(PRIREC, "recommender", "serve", store, "--port", 0, "--app-port", 0, cwd=tmp_path) as service:
        found = json.loads(service.heard('"serving"'))
        link = urlsplit(found["my_phone"])
        given = {name: value for name, (value,) in parse_qs(link.fragment).items()}
        with Store.open(store) as opened:
            own = SigningKey(opened.founding().identity).public.hex()
        assert given == {"url": f"https://localhost:{found['port']}", "fingerprint": own, "helper": key}
        page = httpx.get(f"http://{link.netloc}/", trust_env=False)
        assert f"connect-src 'self' {given['url']};" in page.headers["content-security-policy"]
        told = httpx.get(f"http://{link.netloc}/recommender.json", trust_env=False).json()
        assert told == {"url": given["url"], "rehearsal": True}
        rebound = httpx.get(f"http://{link.netloc}/", headers={"host": "rebound.example"}, trust_env=False)
        assert rebound.status_code == 421
        authority = ssl.create_default_context(cafile=tmp_path / "town.db.tls" / "authority.pem")
        origin = {"origin": f"http://{link.netloc}"}
        answer = httpx.get(f"{given['url']}/v1/deployment", headers=origin, verify=authority, trust_env=False)
        assert answer.headers["access-control-allow-origin"] == origin["origin"]
        assert service.end() == 0


def test_a_deployment_with_one_operator_has_no_page_for_people(tmp_path: Path) -> None:
    recommender("init", tmp_path / "town.db", "--title", "Town")
    done = recommender("serve", tmp_path / "town.db", "--app-port", 0)
    assert done.exit_code == 2
    assert shell.says(done.stderr, messages.NO_HELPER_FOR_MY_PHONE)


def test_a_folder_for_a_host_has_every_file_and_names_the_recommender(tmp_path: Path) -> None:
    url, folder = "https://recommender.example:8443", tmp_path / "page"
    done = recommender("app", folder, "--url", url, *KEYS, columns=1000)
    headers = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert f"connect-src 'self' {url};" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    names = {one.name for one in folder.iterdir()}
    assert names == {one.name for one in (BUILT / "app").iterdir()} | {"recommender.json"}
    told = json.loads((folder / "recommender.json").read_text(encoding="utf-8"))
    assert told == {"url": url, "fingerprint": "ab" * 32, "helperFingerprint": "cd" * 32}
    again = recommender("app", folder, "--url", url, *KEYS)
    assert again.exit_code == 2
    assert shell.says(again.stderr, messages.FOLDER_EXISTS), again.stderr
    for wrong in (
        "http://recommender.example",
        "https://",
        "https://name@recommender.example",
        "https://a.example/?b",
        "https://a:99999",
        "https://[::1",
    ):
        refused = recommender("app", tmp_path / "other", "--url", wrong, *KEYS)
        assert refused.exit_code == 2
        assert shell.says(refused.stderr, messages.NO_HTTPS_ADDRESS)
    for wrong in ("ab" * 31, "xy" * 32):  # nobody could join with such a page
        refused = recommender("app", tmp_path / "other", "--url", url, *KEYS[:3], wrong)
        assert refused.exit_code == 2
        assert shell.says(refused.stderr, messages.WHOLE_KEY)
    refused = recommender("app", tmp_path / "other", "--url", url, *KEYS[:3], KEYS[1])
    assert refused.exit_code == 2
    assert shell.says(refused.stderr, messages.ONE_KEY_FOR_TWO)
    assert not (tmp_path / "other").exists()
