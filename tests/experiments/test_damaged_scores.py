"""Results on disk that are damaged are refused, and scores that are damaged are none."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.errors import StateError
from prirec.metrics import RankFigures
from prirec_experiments.results_store import Cell, CellScores, ResultsStore
from support import messages

CELL = Cell.of("a city", "a model")


def test_scores_with_a_changed_byte_are_none_or_as_they_were(tmp_path):
    rng = np.random.default_rng(0)
    held = CellScores(np.ones(900, dtype=np.int8), np.zeros(900, dtype=np.int32), rng.normal(size=900), 1)
    store, file = ResultsStore(tmp_path, "table"), tmp_path / "scores" / "digest.npz"
    store.put(CELL, "digest", {}, held)
    whole, none = file.read_bytes(), 0
    for at in range(0, len(whole), 7):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
        found = store.scores(CELL)
        none += found is None
        assert found is None or np.array_equal(found.scores, held.scores)
    assert none > len(whole) / 7 / 2


def test_lists_are_kept_with_scores_and_older_files_have_none(tmp_path):
    figures = RankFigures(np.arange(3), *(np.linspace(0, 1, 3) for _ in range(4)))
    plain = CellScores(np.ones(3, dtype=np.int8), np.zeros(3, dtype=np.int32), np.zeros(3), 3)
    for held in (plain, replace(plain, lists=figures)):
        store = ResultsStore(tmp_path, "table")
        store.put(CELL, "digest", {}, held)
        found = store.scores(CELL)
        assert (found.lists is None) == (held.lists is None)
    for name in ("person", "hit_rate", "ndcg", "recall", "auc_nearby"):
        assert np.array_equal(getattr(found.lists, name), getattr(figures, name))


@pytest.mark.parametrize("text", [b"{", b'{"version": "\xe9"}', 100_000 * b"["], ids=lambda text: repr(text[:9]))
def test_results_that_are_no_text_of_ours_are_refused(tmp_path, text):
    (tmp_path / "table.json").write_bytes(text)
    with pytest.raises(StateError, match=messages.NOT_RESULTS):
        ResultsStore(tmp_path, "table")
