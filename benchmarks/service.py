"""The deployment under load: boxes relayed, a whole round of many devices, memory over many rounds.

python service.py            some minutes
python service.py --long     as `make soak` has it: PostgreSQL as well, 500 devices, 1,000 rounds
"""

import json
import sys
from typing import Any

import relay
import server_memory
import whole_round

DEVICES, MANY_DEVICES = 200, 500
ROUNDS, MANY_ROUNDS = 100, 1000


def measure() -> dict[str, Any]:
    return {"relay": relay.measure(), "round": whole_round.measure(DEVICES), "memory": server_memory.measure(ROUNDS)}


def measure_long() -> dict[str, Any]:
    return {
        "relay": relay.measure_postgres(),
        "round": whole_round.measure(MANY_DEVICES),
        "memory": server_memory.measure(MANY_ROUNDS),
    }


def lines(found: dict[str, Any]) -> list[str]:
    return ["## The service under load", "", *_parts(found, store="SQLite")]


def lines_long(found: dict[str, Any]) -> list[str]:
    return ["## The service under load, at length", "", "By `make soak`.", "", *_parts(found, store="PostgreSQL")]


def _parts(found: dict[str, Any], *, store: str) -> list[str]:
    parts = (
        relay.lines(found["relay"], store=store),
        whole_round.lines(found["round"]),
        server_memory.lines(found["memory"]),
    )
    return [line for part in parts for line in ("", *part)][1:]


if __name__ == "__main__":
    long = "--long" in sys.argv
    measured = measure_long() if long else measure()
    print(json.dumps(measured, indent=1), *(lines_long if long else lines)(measured), sep="\n")
