"""Whole trainings with every sum over two operators equal both engines bit for bit, given the same two draws of noise:
with reports missing, late, double, malformed and lying."""

from collections import Counter
from collections.abc import Mapping
from os import urandom

import msgspec
import numpy as np
import pytest

from prirec.config import Settings
from prirec.engines import plain, protocol
from prirec.engines.protocol import ProtocolSums, Wire
from prirec.engines.train import make_engine
from prirec.errors import Fault, PolicyError
from prirec.privacy.plan import Kind, plan_for
from prirec.privacy.quality_figures import contributions
from prirec.protocols.codec import encode
from prirec.protocols.messages import AnyMessage, Report, Round
from prirec.protocols.terms import RingCode, over_two_operators
from prirec.protocols.two_operators import Device, JointTask, Leader, Reason, _statement
from prirec.rounds.definition import simulated_noise
from prirec.sharing.fixed_point import FixedPoint
from prirec.sharing.keys import SigningKey
from prirec.simulate import popularity, private_figures
from prirec.simulate.setup import set_up
from prirec.types import RingArray
from support import messages
from support.cities import SMALL_PRIVATE, change, same_state, samples_of, small_city
from support.low_floors import low_floor

FLOOR = 12
FEW = change(SMALL_PRIVATE, floor=FLOOR, sums={"operators": 2})
ROUNDS = {
    "as few as may be": (FLOOR, {}, {(True, False)}),
    "many lost": (30, {"participation": {"online": 0.9, "dropout": 0.4}}, {(True, True)}),
    "too many lost": (18, {"participation": {"dropout": 0.8}, "features": {"dynamic": False}}, {(False, True)}),
}


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FLOOR)


class Meddled(ProtocolSums):
    """Beside the reports there are strays: each is refused alone. `offline` rows have people who are in no sum."""

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)  # type: ignore[arg-type]
        self.strays, self.refused, self.decided = Counter[str](), Counter[Fault](), Counter[Reason]()
        self._late: AnyMessage | None = None

    def send_reports(self, wire: Wire, task: JointTask, values: Mapping[int, RingArray]) -> None:
        super().send_reports(wire, task, values)
        some = next(iter(values), None)
        if some is None:
            return
        own = decoded(self.devices[some].journal.kept(task.round).payload)  # type: ignore[union-attr]
        stranger, mine = SigningKey(bytes(32)), self.devices[some].identity
        other = Device(task, identity=mine, value=values[some], draw=np.random.default_rng(0).bytes)
        sent = {
            "double": own,
            "a second one": other.report()[-1].message,  # type: ignore[union-attr]
            "a stranger's": Device(task, identity=stranger, value=values[some], draw=np.random.default_rng(1).bytes)
            .report()[-1]
            .message,  # type: ignore[union-attr]
            "somebody else's": msgspec.structs.replace(own, sender=self.devices[0].name, nonce=bytes(16)),
            "another round's": msgspec.structs.replace(own, round=msgspec.structs.replace(own.round, attempt=1)),
            "malformed": msgspec.structs.replace(own, nonce=b"short"),
        }
        away = next((i for i in range(len(self.devices)) if i not in values), None)
        if away is not None:
            sent["a lie"] = self.lie(task, away, own)
        there = next((i for i in range(len(self.devices)) if i not in values and i != away), None)
        late = Device(task, identity=self.devices[there or 0].identity, value=values[some], draw=urandom)
        self._late = late.report()[-1].message if there is not None else None  # type: ignore[union-attr]
        for name, message in sent.items():
            self.strays[name] += 1
            wire._send(message)  # type: ignore[arg-type]
        self._wire, self._leader = wire, next(one for one in wire.parties.values() if isinstance(one, Leader))

    def lie(self, task: JointTask, at: int, own: Report) -> Report:
        """From somebody who is in no sum: another person's shares, signed by this one."""
        identity = self.devices[at].identity
        new = msgspec.structs.replace(own, sender=identity.public)
        return msgspec.structs.replace(new, signature=identity.sign(encode(_statement(own.held, new))))

    def over_roster(self, *given: object, **named: object) -> RingArray | None:
        found = super().over_roster(*given, **named)  # type: ignore[arg-type]
        if found is not None and self._late is not None:
            self.strays["late"] += 1
            self._wire._send(self._late)
            self._wire._deliver()
        self.refused.update(fault.fault for fault in self._wire.refused)
        self.decided.update(self._leader.refused)
        return found


def decoded(payload: bytes) -> Report:
    found = protocol.decode(payload)
    assert isinstance(found, Report)
    return found


def assert_equal_runs(
    people: int, settings: Settings, *, iterations: int = 2
) -> tuple[set[tuple[bool, bool]], Meddled]:
    """Whether sums were opened, and whether they lost somebody who had come."""
    samples = samples_of(small_city(people=people, places=5, records=4 * people), settings)
    sums, seen = Meddled(samples, settings), set()
    begun = make_engine("plain", samples, change(settings, participation={"dropout": 0.0})).start()
    engines = [
        plain.engine(samples, settings, sums),
        *(make_engine(name, samples, settings) for name in ("plain", "local")),
    ]
    states = [begun, begun.copy(), begun.copy()]
    for _ in range(iterations):
        first, *others = (engine.advance(state) for engine, state in zip(engines, states, strict=True))
        assert others == [first, first]
        assert same_state(states[0], states[1])
        assert same_state(states[0], states[2])
        seen.add((first.opened, first.took_part > first.in_sum))
    assert states[0].estimate.average.any() == any(opened for opened, _ in seen)
    return seen, sums


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_over_two_operators_have_the_bits_of_the_oracle(name: str) -> None:
    people, changes, opens = ROUNDS[name]
    seen, sums = assert_equal_runs(people, change(FEW, **changes))
    assert seen == opens
    lied = sums.strays["a lie"]
    not_its_own = Fault.AUTH, Fault.EQUIVOCATION  # of somebody else's it depends on whether that one has reported
    assert sum(sums.refused[fault] for fault in not_its_own) == 3 * sums.strays["double"]
    assert {fault: many for fault, many in sums.refused.items() if fault not in not_its_own} == {
        Fault.ORDER: sums.strays["another round's"] + sums.strays["late"],
        Fault.DECODE: sums.strays["malformed"],
    }
    assert sums.decided == ({Reason.BOX: lied} if lied else {})
    assert bool(lied) == (people > FLOOR)
    assert bool(sums.strays["late"]) == (people > FLOOR and (True, True) in opens)


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_the_sum_of_moments_has_the_bits_of_the_oracle(lost: float) -> None:
    settings = change(FEW, participation={"dropout": lost})
    samples = samples_of(small_city(people=30, places=5, records=120), settings)
    states = [make_engine(name, samples, settings).start() for name in ("protocol", "plain", "local")]
    assert same_state(states[0], states[1])
    assert same_state(states[0], states[2])


@pytest.mark.parametrize("engine", ["protocol", "plain", "local"])
def test_a_sum_of_moments_that_too_many_have_left_is_refused(engine: str) -> None:
    settings = change(FEW, participation={"dropout": 0.8}, features={"dynamic": False})
    samples = samples_of(small_city(people=18, places=5, records=72), settings)
    with pytest.raises(PolicyError, match=messages.TOO_FEW_IN_MOMENTS):
        make_engine(engine, samples, settings).start()


def test_operators_that_forget_their_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "operator_seeds", lambda settings, where: [bytes(32), bytes(32)])
    with pytest.raises(AssertionError):
        assert_equal_runs(FLOOR, FEW, iterations=1)


def test_the_two_draws_of_a_sum_are_two_and_others_in_every_sum() -> None:
    seeds = [
        seed for where in (("moments", 0), ("interaction", 0), ("interaction", 1), ("popularity",))
        for seed in protocol.operator_seeds(FEW, where)
    ]  # fmt: skip
    assert len(set(seeds)) == 8


def test_the_sum_of_visits_has_the_bits_of_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The vectors that a simulation counts, as reports to real operators."""
    settings = change(FEW, participation={"dropout": 0.2})
    setup = set_up(small_city(people=30, places=12, records=120), settings)
    settings, prepared = setup.settings, setup.prepared
    release = plan_for(settings, people=30, pois=12).release(Kind.POPULARITY)
    rows, taken = [], popularity.opened

    def watched(own: popularity.OwnCounts, **rest: object) -> object:
        whole = np.zeros((30, own.places), np.int64)
        units = np.rint(own.counts * 2.0**release.norm.fraction_bits).astype(np.int64)
        whole[own.pairs // own.places, own.pairs % own.places] = units
        rows.append(whole)
        return taken(own, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(popularity, "opened", watched)
    simulated = popularity.noisy_sums(prepared, settings)
    unit, norm = 2.0**-release.norm.fraction_bits, int(release.norm.units)
    noise = simulated_noise(
        release.wanted_whole, 12, rostered=30, survivors=30, settings=settings, where=("popularity",)
    )  # fmt: skip
    exact = np.rint(simulated.sums / unit).astype(np.int64) - noise.view(np.int64)
    ring = FixedPoint(summands=30, bound=1.001, fraction_bits=release.norm.fraction_bits)
    code = RingCode(ring, most=norm**2, noise=release.wanted_whole)
    assert over_two_operators(code, length=12, floor=FLOOR).bound == norm
    vectors = shortened(rows[0], exact, norm)
    sums = ProtocolSums(setup.samples, settings)
    values = {i: row.view(np.uint64) for i, row in enumerate(vectors) if row.any() or i < FLOOR}
    seeds = protocol.operator_seeds(settings, ("popularity",))
    found = sums.over_operators(Round(bytes(16), "popularity", 0), code, values, held=(), seeds=seeds)
    assert found is not None
    assert (found.view(np.int64) * unit).tolist() == simulated.sums.tolist()


def test_the_sum_of_quality_figures_has_the_bits_of_the_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a simulation reads its figures from, as reports to real operators."""
    settings = change(FEW, privacy={"quality": 0.2})
    samples = set_up(small_city(people=30, places=12, records=120), settings).samples
    release = private_figures.quality_release(settings, samples)
    scores, summed = np.linspace(-2.0, 2.0, len(samples.test)), list[np.ndarray]()
    hits = np.arange(30, dtype=np.int8) % 3 - 1
    monkeypatch.setattr(private_figures, "read", lambda total, **rest: summed.append(total))  # so few drown
    private_figures.private_figures(samples.test, scores, hits, release=release, settings=settings)
    rows = contributions(samples.test.label, scores, hits, offsets=samples.test.offsets, norm=release.norm)
    ring = FixedPoint(summands=30, bound=1.001, fraction_bits=release.norm.fraction_bits)
    code = RingCode(ring, most=int(release.norm.units) ** 2, noise=release.wanted_whole)
    values = {i: row.view(np.uint64) for i, row in enumerate(rows)}
    sums, seeds = ProtocolSums(samples, settings), protocol.operator_seeds(settings, ("quality",))
    found = sums.over_operators(Round(bytes(16), "quality", 0), code, values, held=(), seeds=seeds)
    assert found is not None
    assert found.view(np.int64).tolist() == summed[0].tolist()


def test_visits_of_fewer_than_the_floor_are_not_opened() -> None:
    settings = change(FEW, participation={"dropout": 0.8})
    with pytest.raises(PolicyError, match=messages.TOO_FEW_REPORTS):
        set_up(small_city(people=18, places=5, records=72), settings)


def shortened(rows: np.ndarray, exact: np.ndarray, norm: int) -> np.ndarray:
    """The rounded vectors; that they are what the simulation adds up, and within the norm."""
    assert (rows.sum(axis=0) == exact).all()
    assert ((rows**2).sum(axis=1) <= norm**2).all()
    return rows
