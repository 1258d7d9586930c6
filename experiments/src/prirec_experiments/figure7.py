"""Figure 7 and the complexity section: time against the size of the data, and bytes of a sum counted on a wire.

Messages cross the in-memory wire as they would cross a network, and every sealed box is opened again to count the ring
elements in it.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import process_time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy import stats

from prirec.config import load
from prirec.data.synthetic import CityPlan, make_city
from prirec.engines.protocol import MemoryJournal, Wire
from prirec.engines.train import make_engine
from prirec.evaluate.plots import marker, series
from prirec.protocols import secure_sum
from prirec.protocols.codec import decode_content, unseal
from prirec.protocols.messages import AnyMessage, Masked, Partial, Round, ShareOf, Terms, Vector, step
from prirec.protocols.roster import CollectorBase, MemberBase, Task
from prirec.protocols.sdgd import ENTROPY, Neighbour, Receiver
from prirec.protocols.secure_sum import Collector, Member
from prirec.sharing.keys import SigningKey
from prirec.simulate.setup import set_up
from prirec.util.keyed_random import generator
from prirec_experiments.experiment import Experiment, Workspace
from prirec_experiments.results_store import Cell, ResultsStore
from prirec_experiments.rivals.descent import Tell, quiet
from prirec_experiments.show import Plot, Section, Table

LENGTH = 90  # a linear model: w_0 and 89 features
WORD = 8  # bytes: the ring of 64 bits
MEETING = ("invitation", "keys", "roster")
WITH_RING_ELEMENTS = (ShareOf, Partial, Masked)


@dataclass(frozen=True, slots=True)
class WireCost:
    """One sum, by step: bytes on the wire, messages, and the bytes of ring elements in their boxes."""

    octets: Counter[str]
    messages: Counter[str]
    payload: Counter[str]
    one: dict[str, Any]  # a message of each step

    @property
    def meeting(self) -> int:
        return sum(self.octets[name] for name in MEETING)

    def overhead(self, name: str) -> int:
        """Bytes of each message of a step beside its ring elements."""
        over, rest = divmod(self.octets[name] - self.payload[name], self.messages[name])
        if rest:
            raise ValueError(f"messages of the step '{name}' differ in length")
        return over


def count_bytes(method: Literal["shares", "pads"], size: int, *, length: int = LENGTH) -> WireCost:
    """One sum of so many people by Algorithm 1 (shares) or under pads, over the in-memory wire; it is checked, too."""
    rng = generator(size, "bytes on the wire")
    own, identities = SigningKey(rng.bytes(32)), [SigningKey(rng.bytes(32)) for _ in range(size)]
    terms = Terms(method, length, ring_bits=64, fraction_bits=24, bound=2**30, floor=size)
    task = Task(Round(rng.bytes(16), "linear", 1), own.public, terms, rng.bytes(32))
    values = rng.integers(0, 2**64, (size, length), dtype=np.uint64)
    devices = [device(task, identity, value, rng) for identity, value in zip(identities, values, strict=True)]
    receiver = (Receiver if method == "shares" else Collector)(task, identity=own, entropy=rng.bytes(32))
    carried: list[AnyMessage] = []

    def carry(message: AnyMessage) -> Sequence[int]:
        carried.append(message)
        return (0,)

    wire = Wire(carry)
    for party in (receiver, *devices):
        wire.attach(party, MemoryJournal())
    wire.do(receiver, receiver.invite([one.name for one in devices]))
    wire.run(receiver)
    if not np.array_equal(wire.finished[receiver.name].total, values.sum(axis=0, dtype=np.uint64)):
        raise ValueError("the sum is not the sum")
    payload = ring_element_bytes(carried, {one.name: one for one in devices}, receiver)
    return WireCost(wire.traffic.octets, wire.traffic.messages, payload, {step(type(one)): one for one in carried})


def device(task: Task, identity: SigningKey, value: np.ndarray, rng: np.random.Generator) -> MemberBase:
    if task.terms.method == "pads":
        return Member(task, identity=identity, value=value, entropy=rng.bytes(secure_sum.ENTROPY))
    pads = rng.integers(0, 2**64, (task.terms.floor - 1, task.terms.length), dtype=np.uint64)
    return Neighbour(task, identity=identity, value=value, pads=pads, entropy=rng.bytes(ENTROPY))


def ring_element_bytes(
    carried: list[AnyMessage], devices: dict[bytes, MemberBase], receiver: CollectorBase
) -> Counter[str]:
    """Bytes of ring elements by step, every box opened with the keys of whom it is for."""
    payload = Counter[str]()
    for message in carried:
        if isinstance(message, WITH_RING_ELEMENTS):
            to = devices.get(message.receiver, receiver)
            secret, other = to._box_key, devices[message.sender]._box_key.public
            header = receiver._view.header(sender=message.sender, receiver=to.name, kind=type(message))
            content = decode_content(Vector, unseal(secret.agree(other), header, message.sealed))
            payload[step(type(message))] += len(content.values)
    return payload


# The figure: time against the size of the data, N, K and D, and bytes against N


if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Figure 7: time and bytes"
ROUNDS = "PriRec, rounds"
PRESETS = {"PriRec": "paper", ROUNDS: "rounds"}
NAMES = {"records": "training records", "neighbours": "neighbours N", "dimension": "K", "words": "features D"}
SYMBOLS = {"neighbours": "N", "dimension": "K", "words": "D"}
BYTES = {"shares": "Algorithm 1 as printed", "pads": "the same sum under pads"}
CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class TimeAndBytes:
    """The best of some passes on one thread, by the process's own time: what else a machine does only adds to it."""

    clock: Callable[[], float] = process_time

    def digest(self, cell: Cell, workspace: Workspace) -> str:
        return "4"  # of how it is measured

    def run(self, cell: Cell, workspace: Workspace, store: ResultsStore, tell: Tell = quiet) -> None:
        at = {name: int(value) for name, value in cell.changes if not isinstance(value, str)}
        found = self._bytes(cell.model, at) if cell.model in BYTES else self._seconds(cell.model, at, tell)
        store.put(cell, self.digest(cell, workspace), found)

    def expected(self, cell: Cell, workspace: Workspace) -> float:
        if cell.model in BYTES:
            return 1e-3 * float(cell.get("neighbours", 0) or 0) ** 2
        records, repeats = (float(cell.get(name, 0) or 0) for name in ("records", "repeats"))
        return 1e-6 * records * (4 + repeats)

    def _seconds(self, model: str, at: Mapping[str, int], tell: Tell) -> dict[str, Any]:
        records = at["records"]
        plan = CityPlan(
            people=max(records // 6, 200), places=max(records // 8, 40), records=records, districts=4, categories=140,
            span_km=60.0,
        )  # fmt: skip
        settings = load(changes={
            "preset": PRESETS[model], "data.keep": "all", "features.words": at["words"],
            "neighbours.count": at["neighbours"], "model.dimension": at["dimension"], "floor": 50,
        })  # fmt: skip
        samples = set_up(make_city(plan, generator(0, "figure 7")), settings).samples
        engine = make_engine("local", samples, settings, threads=1)
        state = engine.start()
        engine.advance(state)
        times = []
        for repeat in range(at["repeats"]):
            began = self.clock()
            passed = engine.advance(state)
            times.append(self.clock() - began)
            tell(repeat, passed.loss)
        return {"seconds": min(times), "records": len(samples.train), "features": samples.features}

    def _bytes(self, model: str, at: Mapping[str, int]) -> dict[str, Any]:
        found = count_bytes("shares" if model == "shares" else "pads", at["neighbours"])
        return {"elements": sum(found.payload.values()) // WORD, "octets": sum(found.octets.values())}


def cells(settings: Mapping[str, Any]) -> tuple[Cell, ...]:
    usual = {name: settings[name][0] for name in NAMES} | {"repeats": settings["repeats"]}
    made = [
        Cell.of(CLOCK, model, {**usual, name: value, "against": name})
        for model in PRESETS
        for name in NAMES
        if not (model == ROUNDS and name in ("neighbours", "dimension"))  # the shared model has neither
        for value in settings[f"{name}_against"]
    ]
    sums = [Cell.of(CLOCK, model, {"neighbours": N}) for model in BYTES for N in settings["wire_neighbours"]]
    return (*made, *sums)


@dataclass(frozen=True, slots=True)
class Fit:
    """An affine fit, with the 95 % interval of its slope."""

    slope: float
    half: float
    offset: float
    r2: float


def fit(x: Sequence[float], y: Sequence[float]) -> Fit:
    found = stats.linregress(x, y)
    half = float(stats.t.ppf(0.975, len(x) - 2) * found.stderr) if len(x) > 2 else float("nan")
    return Fit(float(found.slope), half, float(found.intercept), float(found.rvalue**2))


def show(settings: Mapping[str, Any], store: ResultsStore) -> Section:
    words = (
        "CPU time of one pass on one thread, the best of some; what is not varied is as in the first column of its "
        "settings. The paper prints a line without figures. The shared model of rounds has no neighbours and no K. "
        "Bytes are counted on the in-memory wire, every box opened."
    )
    rows, drawings = [], []
    for (model, name), points in _lines(settings, store).items():
        x, y = [point[0] for point in points], [point[1] for point in points]
        line = fit(x, y)
        scaled = 1e6 if name == "records" else 1e3
        unit = "µs a record" if name == "records" else f"ms for one more {SYMBOLS[name]}"
        slope = f"{scaled * line.slope:.3f} ± {scaled * line.half:.3f} {unit}"
        span = f"{min(x):,.0f} to {max(x):,.0f}"
        rows.append((model, NAMES[name], span, slope, f"{1e3 * line.offset:.1f} ms", f"{line.r2:.4f}"))
        drawings.append(_plot(model, name, x, y, line))
    fits = Table(
        "Affine fits of the time of one pass", ("model", "against", ">from", ">slope", ">offset", ">R²"), tuple(rows)
    )
    return Section(TITLE, (words,), (fits, _wire_cost_table(settings, store)), tuple(drawings))


def _lines(settings: Mapping[str, Any], store: ResultsStore) -> dict[tuple[str, str], list[tuple[float, float]]]:
    timed = [cell for cell in cells(settings) if cell.model in PRESETS and store.values(cell) is not None]
    grouped = groupby(timed, key=lambda cell: (cell.model, str(cell.get("against"))))
    return {key: [_point(cell, key[1], store) for cell in group] for key, group in grouped}


def _point(cell: Cell, name: str, store: ResultsStore) -> tuple[float, float]:
    held = store.values(cell) or {}
    measured = {"records": "records", "words": "features"}
    x = float(held[measured[name]] if name in measured else cell.get(name, 0) or 0)
    return x, float(held["seconds"])


def _wire_cost_table(settings: Mapping[str, Any], store: ResultsStore) -> Table:
    formulas: dict[str, Callable[[int], int]] = {
        "shares": lambda N: N * (N - 1) * LENGTH + N * LENGTH, "pads": lambda N: N * LENGTH
    }  # fmt: skip
    rows = []
    for cell in (one for one in cells(settings) if one.model in BYTES):
        if (held := store.values(cell)) is not None:
            N = int(cell.get("neighbours", 0) or 0)
            rows.append((BYTES[cell.model], f"{N}", f"{held['elements']:,}", f"{formulas[cell.model](N):,}",
                         f"{held['octets']:,}"))  # fmt: skip
    columns = ("sum", ">N", ">counted", ">formula", ">bytes in all")
    return Table(
        f"Ring elements of one sum, D + 1 = {LENGTH}", columns, tuple(rows),
        note="Formulas: N (N - 1) (D + 1) shares and N (D + 1) sums of them as printed; N (D + 1) under pads.",
    )  # fmt: skip


def _plot(model: str, name: str, x: Sequence[float], y: Sequence[float], line: Fit) -> Plot:
    def paint(figure: "Figure") -> None:
        axes, ends = figure.subplots(), np.array([0.0, max(x)])
        axes.plot(x, y, color=series(0), marker=marker(0), linestyle="none")
        axes.plot(ends, line.offset + line.slope * ends, color=series(1))
        axes.set_xlabel(NAMES[name])
        axes.set_ylabel("seconds of CPU a pass")
        axes.set_ylim(bottom=0)

    return Plot(f"figure7-{model}-{name}", f"{model}: time against {NAMES[name]}", paint, width=360, height=240)


FIGURE7 = Experiment("figure7", TITLE, cells, TimeAndBytes(), show, clocked=True)
