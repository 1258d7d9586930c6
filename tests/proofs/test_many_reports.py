"""Many random lies, none accepted; many honest reports, none refused. At full size in `make soak`."""

import numpy as np
import pytest

from prirec.errors import PeerError
from prirec.proofs import pine
from prirec.proofs.parameters import Parameters
from support.lying_reports import LIES, LYING, within

HONEST = Parameters.shortest(dimension=445, norm_bound=4096)


def accepted(p, key, nonce, report):
    try:
        states, shares = zip(
            *(
                pine.prepare(p, key, at, nonce=nonce, public=report.public, share=share)
                for at, share in enumerate((report.leader, report.helper))
            ),
            strict=True,
        )
        message = pine.combine(p, shares)
        return pine.opened(*(pine.finish(state, message) for state in states))
    except PeerError:
        return None


@pytest.mark.parametrize("many", [100, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_random_lie_is_accepted(many):
    rng, nonce = np.random.default_rng(many), bytes(16)
    for number in range(many):
        key, vectors = rng.bytes(32), [within(LYING, rng) for _ in range(2)]
        report, other = (pine.report(LYING, vector, nonce, rng.bytes) for vector in vectors)
        lie = LIES[number % len(LIES)]
        assert accepted(LYING, key, nonce, lie(report, other, rng)) is None, (lie.__name__, number)


@pytest.mark.parametrize("many", [100, pytest.param(100_000, marks=pytest.mark.soak)])
def test_no_honest_report_is_refused(many):
    rng = np.random.default_rng(many)
    for _ in range(many):
        vector, nonce, key = within(HONEST, rng), rng.bytes(16), rng.bytes(32)
        found = accepted(HONEST, key, nonce, pine.report(HONEST, vector, nonce, rng.bytes))
        assert found is not None
        assert (found == vector).all()
