"""The published vectors of PINE, bit for bit: every message, both output shares, the sums and what they open to."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prirec.proofs import pine
from prirec.proofs.parameters import Parameters
from vectors import reference_proofs as plain

FOLDER = os.environ.get("PRIREC_VECTORS")
FILES = sorted(Path(FOLDER, "pine").glob("Pine64HmacSha256Aes128_*.json")) if FOLDER else []
NEEDED = pytest.mark.skipif(not FOLDER, reason="PRIREC_VECTORS does not name the folder with published vectors")
PUBLISHED = [pytest.param(json.loads(file.read_text(encoding="utf-8")), id=file.stem) for file in FILES]


@NEEDED
def test_there_are_vectors_where_the_folder_is_named():
    assert PUBLISHED


def parameters(vector: dict[str, Any]) -> Parameters:
    return Parameters(
        dimension=vector["dimension"],
        norm_bound=vector["l2_norm_bound"],
        chunk=vector["chunk_length"],
        norm_chunk=vector["chunk_length_norm_equality"],
        proofs=vector["proofs"],
        norm_proofs=vector["proofs_norm_equality"],
        checks=vector["num_wr_checks"],
        successes=vector["num_wr_successes"],
        alpha=vector["alpha"],
    )


def elements(shares: list[str]) -> list[int]:
    return [int.from_bytes(bytes.fromhex(x), "little") for x in shares]


@NEEDED
@pytest.mark.parametrize("vector", PUBLISHED)
@pytest.mark.parametrize("pine", [plain, pine], ids=["plain", "fast"])
def test_both_twins_give_the_published_bytes(pine, vector):
    p, scale = parameters(vector), 2 ** vector["num_frac_bits"]
    assert vector["shares"] == 2
    sums: list[list[list[int]]] = [[], []]
    for report in vector["prep"]:
        nonce, key = bytes.fromhex(report["nonce"]), bytes.fromhex(vector["verify_key"])
        whole = [round(x * scale) for x in report["measurement"]]
        made = pine.shard(p, whole, nonce, bytes.fromhex(report["rand"]))
        assert made.public.hex() == report["public_share"]
        assert [made.leader.hex(), made.helper.hex()] == report["input_shares"]
        prepared = [
            pine.prepare(p, key, operator, nonce=nonce, public=made.public, share=share)
            for operator, share in enumerate((made.leader, made.helper))
        ]
        shares = [share for _, share in prepared]
        assert [[share.hex() for share in shares]] == report["prep_shares"]
        message = pine.combine(p, shares)
        assert [message.hex()] == report["prep_messages"]
        for operator, (state, _) in enumerate(prepared):
            entries = pine.finish(state, message)
            assert list(entries) == elements(report["out_shares"][operator])
            sums[operator].append(entries)
    totals = [pine.total(p, shares) for shares in sums]
    assert [np.array(share, "<u8").tobytes().hex() for share in totals] == vector["agg_shares"]
    assert [x / scale for x in pine.opened(*totals)] == vector["agg_result"]
