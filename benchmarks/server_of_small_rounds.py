"""The service with its conductor, for small rounds: python server_of_small_rounds.py '{"store": ..., ...}'

Caches that are bounded are full from the beginning, or soon: what is left to see is what grows without end.
"""

import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

import low_floor
from prirec.recommender.conductor import Pace, conduct
from prirec.recommender.server import Worker, serve
from prirec.rehearsal import processes
from prirec.sharing.keys import AgreementKey
from relay_server import OPEN

PACE = Pace(coming=60.0, step=60.0)
LIMITS = replace(OPEN, documents=2**16)  # bytes of documents at hand: some rounds' worth, instead of 64 MB
PARSED = 4096  # public keys that are kept parsed, see sharing/keys.py


def fill_caches() -> None:
    rng = np.random.default_rng(0)
    mine = AgreementKey(rng.bytes(32))
    for _ in range(PARSED):
        mine.agree(AgreementKey(rng.bytes(32)).public)


def main(store: str, certificate: str, key: str) -> None:
    worker = Worker(store, Path(certificate), Path(key), conduct=partial(conduct, pace=PACE), limits=LIMITS)
    serve(worker, host="127.0.0.1", port=0)


if __name__ == "__main__":
    processes.die_with_parent()
    low_floor.lower()
    fill_caches()
    main(**json.loads(sys.argv[1]))
