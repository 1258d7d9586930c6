"""What one waits for at first: the help, and a made-up city of Koubei's size. Each in processes of its own.

    python benchmarks/start.py commands

prints the processor time of commands that store or show a few rows, on a device that has been through a campaign and on
a saved run, beside that of bare Python in the same minutes; and of what the device learns from 100 records. It takes a
minute or two: devices have to be made first.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

from processes import peak_of

TIMES = 11
STARTED = {
    "prirec --help": ["-m", "prirec.cli.main", "--help"],
    "python -c 'import typer, rich'": ["-c", "import typer, rich"],
    "python -c pass": ["-c", "pass"],
}


def measure() -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), "city"]
    made = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"help": _started(), "city": made}


def _started() -> dict[str, float]:
    """Processor seconds of fresh processes, the median of several, taken in turns; the first of each is left out: it
    may have to compile what it imports."""
    taken: dict[str, list[float]] = {name: [] for name in STARTED}
    for _ in range(TIMES + 1):
        for name, words in STARTED.items():
            taken[name].append(_cpu([sys.executable, *words]))
    return {name: median(seconds[1:]) for name, seconds in taken.items()}


def _cpu(command: list[str]) -> float:
    # a process that may not save the bytecode of what it imports compiles everything at every start
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise RuntimeError(f"{command} ended with {process.returncode}: {said.read().decode()}")
    return used.ru_utime + used.ru_stime


def commands() -> list[str]:
    """A table: each command in a fresh process, the least of several, taken in turns. The least, because load on the
    machine adds to processor time too."""
    import prirec
    from prirec.rehearsal.city import rehearse
    from prirec.rehearsal.plan import Plan

    with TemporaryDirectory() as made:
        folder = Path(made)
        rehearse(Plan(devices=60, rounds=1, out=folder / "town"))
        phone = str(min((folder / "town" / "devices").iterdir()))
        whole = prirec.make_city(people=2000)
        whole.save(folder / "city")
        prirec.fit(whole, prirec.settings("private", iterations=2)).save(folder / "run")
        words = {
            "device visit": ["device", "visit", phone, "p01"],
            "device profile": ["device", "profile", phone, "age=31"],
            "device status": ["device", "status", phone],
            "device privacy": ["device", "privacy", phone],
            "device recommend": ["device", "recommend", phone],
            "device export": ["device", "export", phone],
            "recommend": ["recommend", str(folder / "run"), str(folder / "city"), "--person", whole.people[0]],
            "--help": ["--help"],
        }
        timed = {"python -c pass": [sys.executable, "-c", "pass"]}
        timed |= {f"prirec {name}": [sys.executable, "-m", "prirec.cli.main", *given] for name, given in words.items()}
        taken: dict[str, list[float]] = {name: [] for name in timed}
        for _ in range(TIMES + 1):  # the first of each may have to compile what it imports, and is left out
            for name, command in timed.items():
                taken[name].append(_cpu(command))
        taken["a person's own model from 100 records, once loaded"] = _learning(Path(phone), records=100)
    least = {name: min(seconds[1:]) for name, seconds in taken.items()}
    bare = least["python -c pass"]
    return [
        f"| least of {TIMES} fresh processes | CPU seconds | times bare Python |",
        "|---|---|---|",
        *(f"| `{name}` | {cpu:.3f} | {cpu / bare:.0f} |" for name, cpu in least.items()),
    ]


def _learning(phone: Path, *, records: int) -> list[float]:
    """With what the device has published to it, for a person with so many records."""
    from prirec.device.device import Device
    from prirec.device.person import Visit
    from prirec.device.recommend import in_use, own_model
    from prirec.device.sync import View
    from prirec.util.jit import in_numpy

    taken = []
    with Device.open(phone) as device:
        found = in_use(View.of(device.person))
        device.person.set_labelled(labelled=True)
        places = [found.known.ids[at % len(found.known)] for at in range(records - len(device.person.visits()))]
        device.record_visits([Visit(place, at, 1 if at % 3 else -1, {}, None) for at, place in enumerate(places)])
        with in_numpy():  # as a device does when it recommends
            for _ in range(TIMES + 1):
                began = time.process_time()
                own_model(device.person, found)
                taken.append(time.process_time() - began)
    return taken


def city() -> dict[str, float]:
    """Made, and then made ready for training with Koubei's 89 features; the peak is of both, with the imports."""
    from cities import city, wide
    from prirec.data.synthetic import koubei_size
    from prirec.simulate.setup import set_up

    began, cpu = time.monotonic(), time.process_time()
    made = city(koubei_size())
    seconds, cpu = time.monotonic() - began, time.process_time() - cpu
    making = peak_of(os.getpid()) / 1e9
    again = time.process_time()
    samples = set_up(made, wide("rounds")).samples
    ready = time.process_time() - again
    return {
        "people": len(made.people), "places": len(made.places), "records": len(made.visits),
        "features": samples.features, "seconds": seconds, "CPU seconds": cpu,
        "records a second": len(made.visits) / cpu, "gigabytes": making,
        "CPU seconds, made ready": ready, "gigabytes, made ready": peak_of(os.getpid()) / 1e9,
    }  # fmt: skip


def lines(found: dict[str, Any]) -> list[str]:
    helped, made = found["help"], found["city"]
    return [
        "## Start-up and data, CPU seconds on one machine",
        "",
        f"| a fresh process, median of {TIMES} | CPU seconds | `prirec --help`, × this row |",
        "|---|---|---|",
        *(f"| `{name}` | {cpu:.3f} | {helped['prirec --help'] / cpu:.1f} |" for name, cpu in helped.items()),
        "",
        f"A made-up city of Koubei's size ({made['people']:,} people, {made['places']:,} places, {made['records']:,} "
        f"records; {made['features']} features): {made['CPU seconds']:.1f} CPU seconds, "
        f"{made['records a second']:,.0f} records a second, {made['gigabytes']:.2f} GB at the peak; "
        f"preparing it for training: {made['CPU seconds, made ready']:.1f} CPU seconds more, and "
        f"{made['gigabytes, made ready']:.2f} GB.",
    ]


if __name__ == "__main__":
    if "commands" in sys.argv:
        print("\n".join(commands()))
    else:
        print(json.dumps(city() if "city" in sys.argv else measure()))
