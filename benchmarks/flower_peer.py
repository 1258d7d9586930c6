"""Run inside `.venv-flower`: CPU seconds of Flower's secure aggregation (SecAgg+), its own functions, its own defaults.

Is told the number of devices, the threshold and the length of the vector; then, for each name of a task that comes in
on a line, answers with the seconds of one go. What other clients and the server do is not counted.
"""

import os
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from time import process_time

import numpy as np
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import ConfigRecord
from flwr.client.mod.secure_aggregation.secaggplus_mod import (
    SecAggPlusState,
    _collect_masked_vectors,
    _setup,
    _share_keys,
    _unmask,
)
from flwr.common import ndarrays_to_parameters
from flwr.common.secure_aggregation.crypto.shamir import create_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import encrypt, generate_shared_key
from flwr.common.secure_aggregation.secaggplus_constants import Key
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen, share_keys_plaintext_concat
from flwr.supercore.primitives.asymmetric import bytes_to_private_key, bytes_to_public_key

DEVICES, THRESHOLD, LENGTH = map(int, sys.argv[1:])
DEFAULTS = {Key.CLIPPING_RANGE: 8.0, Key.TARGET_RANGE: 2**22, Key.MOD_RANGE: 2**32, Key.MAX_WEIGHT: 1000.0}
SETTINGS = {Key.SAMPLE_NUMBER: DEVICES, Key.SHARE_NUMBER: DEVICES, Key.THRESHOLD: THRESHOLD, **DEFAULTS}
OWN = DEVICES // 2
MANY = 100  # goes of what is over too soon for the clock


def mask_from_seed(seed: bytes) -> None:
    pseudo_rand_gen(seed, DEFAULTS[Key.MOD_RANGE], [(LENGTH,)])


def mask_from_agreement(agreed: bytes) -> None:
    """As generate_shared_key goes on after its exchange, and then the mask."""
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=None).derive(agreed)
    mask_from_seed(urlsafe_b64encode(key))


def entered(nid: int) -> SecAggPlusState:
    state = SecAggPlusState(nid=nid)
    _setup(state, ConfigRecord(dict(SETTINGS)))
    return state


def sealed_for(own: SecAggPlusState, others: list[SecAggPlusState]) -> list[bytes]:
    """What the others send to one client: shares as long as its own."""
    seed_share, key_share = own.rd_seed_share_dict[own.nid], own.sk1_share_dict[own.nid]
    keys = [generate_shared_key(bytes_to_private_key(one.sk2), bytes_to_public_key(own.pk2)) for one in others]
    texts = [share_keys_plaintext_concat(one.nid, own.nid, seed_share, key_share) for one in others]
    return [encrypt(key, text) for key, text in zip(keys, texts, strict=True)]


def whole_client(others: list[SecAggPlusState]) -> float:
    """All four stages of one client; nobody is lost."""
    began = process_time()
    own = entered(OWN)
    spent = process_time() - began
    states = sorted([own, *others], key=lambda state: state.nid)
    keys = ConfigRecord({str(state.nid): [state.pk1, state.pk2] for state in states})
    spent += seconds(lambda: _share_keys(own, keys))
    boxes = ConfigRecord({
        Key.CIPHERTEXT_LIST: sealed_for(own, others),
        Key.SOURCE_LIST: [one.nid for one in others],
    })  # fmt: skip
    vector = ndarrays_to_parameters([np.random.default_rng(0).uniform(-1.0, 1.0, LENGTH)])
    spent += seconds(lambda: _collect_masked_vectors(own, boxes, 10, vector))
    left = ConfigRecord({Key.ACTIVE_NODE_ID_LIST: list(range(DEVICES)), Key.DEAD_NODE_ID_LIST: []})
    return spent + seconds(lambda: _unmask(own, left))


def seconds(task: Callable[[], object], goes: int = 1) -> float:
    began = process_time()
    for _ in range(goes):
        task()
    return (process_time() - began) / goes


def main() -> None:
    others = [entered(nid) for nid in range(DEVICES) if nid != OWN]
    seed, agreed = urlsafe_b64encode(os.urandom(32)), os.urandom(48)
    tasks = {
        "mask from a seed": lambda: seconds(lambda: mask_from_seed(seed), MANY),
        "mask from an agreement": lambda: seconds(lambda: mask_from_agreement(agreed), MANY),
        "shares": lambda: seconds(lambda: create_shares(seed[:32], THRESHOLD, DEVICES)),
        "client": lambda: whole_client(others),
    }
    for line in sys.stdin:
        print(tasks[line.strip()](), flush=True)


if __name__ == "__main__":
    main()
