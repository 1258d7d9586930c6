"""The checks of test_fault_injection.py can fail: each bug that is put into the deployment on purpose is noticed."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from prirec.device import rounds
from prirec.device.rounds import gradient_vector
from prirec.protocols import secure_sum
from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Masked, Round
from prirec.protocols.party import Stage
from prirec.protocols.secure_sum import Collector
from prirec.recommender.conductor import Conductor, Outbox
from support import messages
from support.fault_injection import FaultyDeployment, Plan, few_people
from support.faults import ALL_FAULTS, KilledError, MortalDeviceStore
from support.observer import ViolationError, Witness


def noticed(folder: Path, patch: pytest.MonkeyPatch, *, plan: Plan | None = None, seed: int, **rates: float) -> str:
    """What the witnesses say about a deployment with a fault; it has fifty rounds to show itself in."""
    chaos = FaultyDeployment(folder, few_people(iterations=10), people=9, seed=seed, patch=patch, plan=plan)
    with pytest.raises(ViolationError) as violation:
        asyncio.run(chaos.run(rounds=50, rates=replace(ALL_FAULTS, **rates)))
    return str(violation.value)


class OpenedByItself(Conductor):
    """Writes down that sums are open, and only then what follows from them; in between, one dies."""

    opened = 0

    def _write(self, following, *, persists, **rest):
        apart = [persist for persist in persists if persist.stage is Stage.OPENED]
        for persist in apart:
            self.store.write(persist, holder=self.holder)
            OpenedByItself.opened += 1
        if OpenedByItself.opened == 3:
            raise KilledError
        super()._write(following, persists=[persist for persist in persists if persist not in apart], **rest)


class Forgetful(MortalDeviceStore):
    """Comes back without its journal."""

    @classmethod
    def open(cls, *path, **rest):
        store = super().open(*path, **rest)
        store._connection.execute("DELETE FROM rounds")
        return store


class Stubborn(Conductor):
    """Goes on though others have the word, and minds neither the lease nor how far they have come."""

    def tick(self):
        self.holder, self._outbox = None, Outbox(self.store, holder=None)
        self._progress()
        self._begun = self._written
        return super().tick()


def test_a_sum_that_counts_as_opened_before_anything_follows(folder: Path, monkeypatch):
    said = noticed(folder, monkeypatch, plan=Plan(conductor=OpenedByItself), seed=1)
    assert said == "a sum counts as opened, and nothing followed from it"


def test_a_device_that_adds_something_else_than_its_records_come_to(folder: Path, monkeypatch):
    monkeypatch.setattr(rounds, "gradient_vector", lambda *given: ~gradient_vector(*given))
    assert "is not what its records come to" in noticed(folder, monkeypatch, seed=2)


def test_a_journal_that_is_forgotten(folder: Path, monkeypatch):
    said = noticed(folder, monkeypatch, plan=Plan(device_store=Forgetful), seed=3)
    assert said.startswith(("a device has masked", "a device says two different things"))


def test_a_second_vector_at_a_number_in_whatever_attempt():
    witness, name, to = Witness(), b"\1" * 32, b"\2" * 32

    def masked(attempt: int, sealed: bytes) -> bytes:
        return encode(Masked(VERSION, Round(bytes(16), "interaction", 5, 0, attempt), name, to, sealed, bytes(64)))

    witness.heard(name, masked(0, b"one"))
    witness.heard(name, masked(0, b"one"))  # the same again is the same
    with pytest.raises(ViolationError, match=messages.Foreign.TWO_VECTORS_AT_ONE_NUMBER):
        witness.heard(name, masked(1, b"another"))
    with pytest.raises(ViolationError, match=messages.Foreign.TWO_DIFFERENT_MESSAGES):
        witness.heard(name, masked(0, b"another"))


def test_a_conductor_that_minds_nobody_else(folder: Path, monkeypatch):
    assert "lost its lease" in noticed(folder, monkeypatch, plan=Plan(conductor=Stubborn), seed=4, taken_over=0.1)


def test_a_device_that_leaves_its_noise_out(folder: Path, monkeypatch):
    monkeypatch.setattr(secure_sum, "draw_noise", lambda terms, size, *, seed: secure_sum.ring_zeros(terms))
    assert "not the sum" in noticed(folder, monkeypatch, seed=5)


def test_a_vector_that_is_counted_twice(folder: Path, monkeypatch):
    take = Collector._take_vector

    def twice(self, message):
        before = self._total.copy()
        done = take(self, message)
        self._total += self._total - before
        return done

    monkeypatch.setattr(Collector, "_take_vector", twice)
    assert "not the sum" in noticed(folder, monkeypatch, seed=6)
