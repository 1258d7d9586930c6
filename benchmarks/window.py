"""A window of many reports through both operators over HTTPS: python benchmarks/window.py --devices 10000

Recommender and helper are processes with a store each. Other processes are the devices: each opens a TLS connection and
a session of its own and posts a real report of 445 entries. When all have reported, the clock of both operators is put
forward to the end of the window. The opened sum must be that of the vectors, but for noise. CPU is counted for each
process by itself; a device's report is made by the same code as on a phone, and is the larger part of the whole.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from os import urandom
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from certificates import IN_MEMORY, ServerCertificate, server_certificate
from connections import Connection, request
from prirec.config import PRIVATE, check
from prirec.data.synthetic import CityPlan, make_city
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.protocols.codec import encode
from prirec.protocols.two_operators import Device, JointTask, Noised, operator_noise
from prirec.recommender import campaign as rules
from prirec.recommender import operator
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.operator import HelperAddress
from prirec.recommender.peer import HttpsLine, Peer
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import Store
from prirec.rehearsal.deployment import free_port
from prirec.sharing.keys import SigningKey
from prirec.wire import http
from prirec.wire.documents import Window, read
from processes import cpu_of, peak_of, resident_of, serving
from window_server import ShiftedClock

ENTRIES = 445  # V at Koubei's shape; here places, in the sum of visits
DAY = 86_400
AT_ONCE = 64  # devices of one process that are online together
PROCESSES = 2  # of devices
OPENED_AFTER = "seconds from the window's end to the open sum"
KEPT = 1000  # bytes that an operator may keep in memory for each report: a name, a hash, and what holds them
KERNELS = 250  # MB of kernels, which are loaded with the first proofs: of few reports that is after a tenth of them
MANY = 100_000  # reports of the measured window
QUIET = 600.0  # seconds without any progress: something is wrong


def person(at: int) -> SigningKey:
    return SigningKey(sha256(b"person %d" % at).digest())


def vector(at: int, task: JointTask) -> np.ndarray:
    """As long as it may be, nearly."""
    direction = np.random.default_rng(at).normal(size=task.terms.length)
    whole = np.trunc(task.terms.bound * direction / np.linalg.norm(direction)).astype(np.int64)
    return whole.view(np.uint64)


# Devices


@dataclass
class Load:
    """What some devices have sent: `total` is the sum of their vectors."""

    total: np.ndarray
    sent: int = 0  # bytes of requests, before TLS
    making: float = 0.0  # seconds of CPU that reports took
    cpu: float = 0.0  # and all else of this process


def report_all(rows: range, task: JointTask, deployment: bytes, port: int, authority: bytes) -> Load:
    load, waiting = Load(np.zeros(task.terms.length, np.uint64)), iter(rows)
    trust = ServerCertificate(Path(), authority).client_context

    async def live() -> None:
        for at in waiting:
            await _report(at, task, deployment, port, trust, load)

    async def everyone() -> None:
        await asyncio.gather(*(live() for _ in range(AT_ONCE)))

    began = time.process_time()
    asyncio.run(everyone())
    load.cpu = time.process_time() - began - load.making
    return load


async def _report(at: int, task: JointTask, deployment: bytes, port: int, trust: Any, load: Load) -> None:
    began = time.process_time()
    identity, value = person(at), vector(at, task)
    report = encode(Device(task, identity=identity, value=value, draw=urandom).report()[-1].message)  # type: ignore[union-attr]
    load.making += time.process_time() - began
    load.total += value
    line = await Connection.to(port, trust)

    async def ask(path: str, body: bytes, **headers: str) -> bytes:
        whole = request(path, body, headers)
        load.sent += len(whole)
        return await line.ask(whole)

    challenge = msgspec.msgpack.decode(await ask("/v1/challenges", b""), type=http.Challenge).challenge
    claim = http.Claim(deployment, identity.public, challenge)
    said = http.SignedClaim(claim, identity.sign(encode(claim)))
    token = msgspec.msgpack.decode(await ask("/v1/sessions", encode(said)), type=http.Session).token
    await ask("/v1/reports", report, authorization=f"{http.BEARER} {token}")
    line.close()


# Operators


@dataclass
class Operators:
    """Both, as processes; their stores are looked into from here."""

    leading: Store
    helping: Store
    clock: ShiftedClock
    port: int
    pids: dict[str, int]
    seen: list[dict[str, Any]] = field(default_factory=list)

    def state(self, of: Store) -> CampaignState | None:
        held = of.progress()
        return None if held is None else rules.decode_state(held)

    def look(self, count: int) -> None:
        self.seen.append({"reports": count} | {name: resident_of(pid) for name, pid in self.pids.items()})

    def until(self, true: Any) -> None:
        began = time.monotonic()
        while not true():
            if time.monotonic() - began > QUIET:
                raise RuntimeError("nothing has moved for minutes")
            time.sleep(0.05)


@contextmanager
def operators(devices: int) -> Iterator[tuple[Operators, ServerCertificate]]:
    settings = check(msgspec.structs.replace(
        PRIVATE, data=msgspec.structs.replace(PRIVATE.data, keep="all"),
        sums=msgspec.structs.replace(PRIVATE.sums, operators=2),
    ))  # fmt: skip
    with server_certificate(where=IN_MEMORY) as files, ExitStack() as stack:
        clock, port = files.folder / "clock", free_port()
        clock.write_bytes(bytes(8))
        stores = {name: str(files.folder / name) for name in ("recommender", "helper")}
        leading, helping = (stack.enter_context(Store.open(url)) for url in stores.values())
        helper = operator.found_helper(helping, title="helper")
        address = HelperAddress.of(
            f"https://localhost:{port}", operator.fingerprint(helper.identity), files.authority
        )  # fmt: skip
        founding = operator.found_deployment(leading, title="a town", helper=address)
        operator.pair_helper(
            helping, deployment=founding.deployment.hex(), recommender=operator.fingerprint(founding.identity)
        )  # fmt: skip
        city = make_city(CityPlan(people=200, places=ENTRIES, records=4000), np.random.default_rng(0))
        encoding = plan_encoding(city, Popularity({}), settings.features)
        operator.publish_catalogue(leading, CatalogueSource(city.places, encoding))
        for at in range(devices):
            leading.enrol(person(at).public, day=0)
        task = {"clock": str(clock), **files.files}
        helps = stack.enter_context(
            serving(
                "window_server.py",
                {**task, "store": stores["helper"], "port": port, "leads": False},
                log=files.folder / "helper.log",
            )
        )
        line = stack.enter_context(closing(HttpsLine(replace(founding))))
        operator.begin_campaign(leading, settings, window=DAY, most=devices, peer=Peer(leading, line))
        leads = stack.enter_context(
            serving(
                "window_server.py",
                {**task, "store": stores["recommender"], "port": 0, "leads": True},
                log=files.folder / "leader.log",
            )
        )
        yield (
            Operators(leading, helping, ShiftedClock(clock), leads.port, {"leader": leads.pid, "helper": helps.pid}),
            files,
        )


def measure(devices: int = 10_000) -> dict[str, Any]:
    with operators(devices) as (both, files):
        both.until(lambda: (state := both.state(both.leading)) is not None and state.window and both.leading.cosigned())
        state = both.state(both.leading)
        assert state is not None
        fetch = partial(operator.own_document, both.leading)
        window = read(Window, fetch(state.window), name=state.window)
        task = CampaignSteps.of(state, fetch).joint(state, window)
        both.until(lambda: both.leading.joint.stage(task.round) is not None)
        before = {name: cpu_of(pid) for name, pid in both.pids.items()}
        began = time.monotonic()
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            founding = both.leading.founding()
            parts = [range(at, devices, PROCESSES) for at in range(PROCESSES)]
            given = task, founding.deployment, both.port, files.authority
            under_way = [pool.submit(report_all, part, *given) for part in parts]
            while not all(one.done() for one in under_way):
                both.look(both.leading.joint.count_reports(task.round))
                time.sleep(1.0)
            loads = [one.result() for one in under_way]
        reported = time.monotonic() - began
        both.look(both.leading.joint.count_reports(task.round))
        began = time.monotonic()
        both.clock.put_forward(window.closes - time.time())
        both.until(lambda: (both.state(both.leading) or state).phase != "visits")
        opened = time.monotonic() - began
        both.look(devices)
        cpu = {name: cpu_of(pid) - before[name] for name, pid in both.pids.items()}
        outcome = (both.state(both.leading) or state).past[-1]
        kept = both.leading.joint.kept(task.round)
        assert kept is not None
        total = np.frombuffer(msgspec.msgpack.decode(kept.payload, type=Noised).total, np.uint64)
        noise = (total - np.sum([load.total for load in loads], axis=0, dtype=np.uint64)).view(np.int64)
        law = operator_noise(task.terms)
        largest = law.tail(survivors=task.terms.floor, count=task.terms.length)
        variance = float(law.total_variance(outcome.survivors))
        making, lines = (sum(getattr(load, name) for load in loads) for name in ("making", "cpu"))
        stages = {"at a tenth": devices // 10, "when all had reported": devices}
        return {
            "devices": devices,
            "in the sum": outcome.survivors,
            "exact but for noise": bool((np.abs(noise) <= largest).all()),
            "noise, × planned": float(np.sqrt((noise.astype(float) ** 2).mean() / variance)),
            "seconds of reports": reported,
            OPENED_AFTER: opened,
            "bytes of a device": sum(load.sent for load in loads) / devices,
            "CPU ms a report": {
                who: 1000 * seconds / devices
                for who, seconds in {**cpu, "making it": making, "its device's line": lines}.items()
            },
            "MB": {
                name: {when: _at(both.seen, name, many) for when, many in stages.items()}
                | {"at the most": peak_of(pid) / 1e6}
                for name, pid in both.pids.items()
            },
            "MB on disk": {
                name: sum(file.stat().st_size for file in files.folder.glob(f"{name}*")) / 1e6
                for name in ("recommender", "helper")
            },
        }


def measure_long() -> dict[str, Any]:
    found = measure(MANY)
    if wrong := faults(found):
        raise RuntimeError("; ".join(wrong))
    return found


def faults(found: dict[str, Any]) -> list[str]:
    """What is wrong with a measured window, a sentence each."""
    must = {
        "not every report is in the sum": found["in the sum"] == found["devices"],
        "the sum is not that of the vectors": found["exact but for noise"],
        # of 445 entries; six standard deviations are 0.2
        "the noise is not the planned one": 0.7 < found["noise, × planned"] < 1.4,
        "a device sends more than a report": found["bytes of a device"] < 1.2 * 21_000,
    }
    room = found["devices"] * KEPT / 1e6 + (KERNELS if found["devices"] < MANY else 0)
    for name, memory in found["MB"].items():
        must[f"the {name} keeps more than {KEPT} bytes for a report"] = (
            memory["when all had reported"] - memory["at a tenth"] < room
        )
    return [words for words, holds in must.items() if not holds]


def lines(found: dict[str, Any]) -> list[str]:
    missing = found["devices"] - found["in the sum"]
    shown = [
        f"## A window of {found['devices']:,} reports of {ENTRIES} entries, through both operators over HTTPS",
        "",
        f"{missing:,} are missing in the sum, which is that of the vectors "
        f"{'but for' if found['exact but for noise'] else 'and more than'} noise of both operators "
        f"({found['noise, × planned']:.2f} × the planned standard deviation). Reports took "
        f"{found['seconds of reports']:,.0f} s on two cores, devices included; others used the machine, too. The sum "
        f"was open {found[OPENED_AFTER]:.0f} s after the window's end. A device sent "
        f"{found['bytes of a device']:,.0f} bytes, session and all.",
        "",
        "| | CPU, ms a report | MB at a tenth of the reports | with all | at the most | MB on disk |",
        "|---|---|---|---|---|---|",
    ]
    disk = {"leader": "recommender", "helper": "helper"}
    for who, cpu in found["CPU ms a report"].items():
        memory = found["MB"].get(who)
        more = [""] * 4 if memory is None else [f"{one:,.0f}" for one in memory.values()]
        more = more if memory is None else [*more, f"{found['MB on disk'][disk[who]]:,.0f}"]
        shown.append(f"| {who} | {cpu:.2f} | {' | '.join(more)} |")
    return shown


def _at(seen: list[dict[str, Any]], name: str, reports: int) -> float:
    return float(next(one[name] for one in seen if one["reports"] >= reports) / 1e6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=10_000)
    print(json.dumps(measure(parser.parse_args().devices), indent=1))
