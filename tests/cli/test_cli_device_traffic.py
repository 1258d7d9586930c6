"""prirec device traffic: what a device sent, field by field, and a ledger that anybody can recount."""

import json
import re
import subprocess
import sys
from pathlib import Path

import msgspec

from prirec.device.ledger import LedgerStore, Price
from prirec.device.store import Store
from prirec.device.traffic import _FIXED, _fields
from prirec.privacy.accountant import Spent, affordable
from prirec.privacy.ledger import Budget
from prirec.protocols.messages import Report, Round
from prirec.protocols.party import Persist, Stage
from prirec.protocols.two_operators import leader_box_length
from support.joint_sums import honest, joint_task, vectors
from support.pages import ROOT
from support.shell import call, told

PAGE = ROOT / "docs" / "how-to" / "traffic.md"
SHARES = (0.3, 0.2, 0.05)  # of the budget


def device_that_paid(path: Path) -> None:
    whole = affordable(1.0, 1e-6).grains
    with Store.open(path) as store:
        paid = LedgerStore(store, Budget(1.0, 1e-6))
        for number, share in enumerate(SHARES):
            of = Round(b"deployment-42-xy", "popularity", number)
            price = Price("how popular places are", Spent(int(whole * share)))
            paid.write(Persist(of, Stage.ENTERED, b"\1" * 32), day=1)
            paid.write(Persist(of, Stage.MASKED, b"\1" * 32, b"secret vector"), day=1, price=price)


def test_the_ledger_recounted_as_the_page_says_is_what_the_device_says(tmp_path):
    path = tmp_path / "phone.db"
    device_that_paid(path)
    (tmp_path / "traffic.json").write_text(call("device", "traffic", path, "--json").stdout)
    _, block = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=True)
    spent = told("device", "privacy", path)["lifetime"]["epsilon"]
    assert abs(float(done.stdout.split()[1]) - spent) < 2e-6
    assert 0.5 < spent < 1


def test_every_sum_is_listed_with_its_price_and_nothing_private_is(tmp_path):
    path = tmp_path / "phone.db"
    device_that_paid(path)
    found = call("device", "traffic", path)
    assert found.exit_code == 0
    assert found.stdout.count("1970-01-02") == len(SHARES)
    said = call("device", "traffic", path, "--json").stdout
    for canary in ("secret vector", b"secret vector".hex()):
        assert canary not in found.stdout
        assert canary not in said
    assert [one["number"] for one in json.loads(said)["sums"]] == [0, 1, 2]


def test_a_device_that_sent_nothing_says_so(tmp_path):
    with Store.open(tmp_path / "phone.db"):
        pass
    assert call("device", "traffic", tmp_path / "phone.db").stdout == "nothing was sent for a sum\n"


def test_fields_are_as_long_as_those_of_a_real_report_and_begin_as_they_do():
    task = joint_task()
    report = honest(task, 0, vectors(1, task.terms)[0])
    own = [one.name for one in msgspec.structs.fields(Report)][4:]
    shown = {one.name: one for one in _fields("popularity", None, report)}
    assert list(shown) == own
    for name, size in (_FIXED | {"leader_box": leader_box_length(task.terms)}).items():
        assert len(getattr(report, name)) == size
        assert shown[name].begins == getattr(report, name)[:8].hex()
