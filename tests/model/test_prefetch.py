"""Memory is fetched ahead where Numba compiles the instruction, and not where it does not; and what runs for every
record counts no references."""

import re
from typing import Any

import numpy as np
import pytest
from numba import jit

from prirec.engines import local
from prirec.engines.train import make_engine
from prirec.model import prefetch
from prirec.model.prefetch import LINE, prefetch_entry, prefetch_row
from prirec.util.jit import instruction, kernel
from support import messages
from support.cities import SMALL_PAPER, samples_of, small_city


@kernel
def fetched(table, values):
    prefetch_row(table, 1)
    prefetch_entry(values, 3)
    return table[1].sum() + values[3]


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.uint64])
@pytest.mark.parametrize("width", [0, 1, LINE // 8, 100])
def test_a_hint_changes_no_result(kind, width):
    table, values = np.arange(2 * width).astype(kind).reshape(2, width), np.arange(5, dtype=kind)
    assert fetched(table, values) == table[1].sum() + 3


def test_the_instruction_is_in_the_machine_code():
    """This Numba compiles it: the paper's schedule has not become slower unnoticed."""
    anew = jit(nopython=True)(fetched.py_func)
    anew(np.ones((2, 9)), np.ones(5))
    assert "llvm.prefetch" in next(iter(anew.inspect_llvm().values()))


def test_where_numba_does_not_compile_an_instruction_the_function_itself_takes_its_place():
    def broken():
        raise AttributeError("no such attribute in this Numba")

    @instruction(broken, signature="int64(int64)")
    def same(value):
        return value

    with pytest.warns(RuntimeWarning, match=messages.INSTRUCTION_NOT_COMPILED):
        assert same(3) == 3
    assert same(4) == 4  # told once


def test_where_nothing_is_compiled_an_instruction_is_not_asked_for(monkeypatch):
    monkeypatch.setattr("numba.config.DISABLE_JIT", True)
    plain = instruction(prefetch._llvm_prefetch, signature="void(float64[::1], intp)")(prefetch.prefetch.__wrapped__)
    assert plain(np.ones(3), 8) is None


def test_kernels_of_the_paper_count_no_references(monkeypatch):
    """Numba's counts are locked instructions on lines that all threads share."""
    anew = compiled_anew(local.sample_pass)
    monkeypatch.setattr(local, "sample_pass", anew)
    engine = make_engine("local", samples_of(small_city(), SMALL_PAPER), SMALL_PAPER, threads=1)
    engine.advance(engine.start())
    (assembly,) = anew.inspect_asm().values()
    functions = re.split(r"\n(?=[^\s.#][^\n]*:\n)", assembly)
    mine = [function for function in functions if "sample_pass" in function.split(":")[0]]
    assert mine  # draw_neighbours, which counts, is a function of its own
    assert not any("NRT_incref" in function for function in mine)


def compiled_anew(of: Any) -> Any:
    """The same kernel with its options, so that its machine code can be looked at: what comes from a cache has none."""
    assert of.targetoptions["_nrt"] is False
    return jit(**of.targetoptions)(of.py_func)
