"""Python devices and devices in tabs of Chromium in one campaign over two operators, over HTTPS: every sum is what all
of them added and what both operators drew, and B follows from these, bit for bit."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prirec.features.columns import WordScales
from prirec.model.estimate import Estimate
from prirec.protocols.messages import Round
from prirec.recommender.operator import fingerprint, published_figures
from prirec.recommender.release import Catalogue, quality_release
from prirec.wire.campaign import PublishedFigures, write_scales
from support import messages
from support.browser_devices import Browser, RefusedInBrowserError, browser, free_origin
from support.cities import SMALL_PRIVATE, change, same_bits, small_city, with_spending
from support.joint_deployment import JointTown, Online, joint_town, steps
from support.simulated_deployment import campaign_of

PLACES, ROUNDS, FLOOR = 20, 2, 50
SETTINGS = change(  # a budget with which popularity rises out of the noise of so few
    SMALL_PRIVATE, iterations=ROUNDS, floor=FLOOR, sums={"operators": 2},
    privacy={"epsilon_per_user": 40.0, "quality": 0.5}, features={"averages": ("spend",)},
)  # fmt: skip


UNLUCKY = "device 0"  # whose tab dies in the middle of every report, one way or another


class Tabs:
    """So many devices in so many tabs, the unlucky one in a tab of its own."""

    def __init__(self, line: Browser, at: JointTown, many: int, tabs: int = 2) -> None:
        self.line, self.at, self.spare = line, at, 0
        self.spent = list[np.ndarray]()  # what each adds to the sum of visits
        self.tab_of = {f"device {i}": f"tab {i % tabs}" for i in range(1, many)} | {UNLUCKY: "its own tab"}
        self.set_clock()

    def set_clock(self) -> None:
        for tab in set(self.tab_of.values()):
            self.line.ask(tab, "", "setClock", self.at.clock.now)

    def kill(self, device: str) -> None:
        """End its tab as a crash does, and open it in another."""
        self.line.ask(self.tab_of[device], device, "killTab")
        self.spare += 1
        self.tab_of[device] = f"spare tab {self.spare}"
        self.set_clock()
        self.ask(device, "open", {"wait": True})  # until the browser has let go of the dead one's lock

    def mishap(self, number: int) -> None:
        """The unlucky device's tab dies in the middle of its report: with a report that never left, with one that has
        arrived and was not answered, or at any moment."""
        device, tab = UNLUCKY, self.tab_of[UNLUCKY]
        if number < 2:
            with pytest.raises(RefusedInBrowserError, match=messages.OPEN_ELSEWHERE):
                self.line.ask("tab 1", device, "open")  # two tabs are one writer
            self.line.ask(tab, device, "reports", ("holdBack", "loseAnswers")[number])
            assert self.ask(device, "takePart", {"spread": 0})["outcome"] == "unreachable"
            written = self.reports()[0]["report"]
            assert written["state"] == "written"
        else:
            self.line.begin(tab, device, "takePart", {"spread": 0})
        self.kill(device)
        outcome = self.ask(device, "takePart", {"spread": 0})["outcome"]
        assert outcome in (("sent",) if number < 2 else ("sent", "arrived before"))
        assert [one["report"]["state"] for one in self.reports()] == ["arrived"] * (number + 1)
        assert self.ask(device, "statement")["budget"]["releases"] == number + 1  # charged once
        assert self.ask(device, "takePart", {"spread": 0})["outcome"] == "arrived before"

    def late(self, kind: str) -> None:
        """Where the time for a contribution is over, it is zeros; visits take no time that could tell anything."""
        found = self.ask(UNLUCKY, "lateContribution")
        if kind != "popularity":
            assert (found["why"], any(found["value"])) == ("the time is over", False)

    def reports(self) -> list[dict[str, Any]]:
        """Those of the unlucky device, the newest first."""
        return [one for one in self.ask(UNLUCKY, "statement")["sent"] if one["what"] == "report"]

    def each(self, method: str, *given: Any) -> dict[str, Any]:
        """The same of every device, at once."""
        asked = {device: self.line.begin(tab, device, method, *given) for device, tab in self.tab_of.items()}
        return {device: self.line.answer(number) for device, number in asked.items()}

    def ask(self, device: str, method: str, *given: Any) -> Any:
        return self.line.ask(self.tab_of[device], device, method, *given)

    def join(self) -> None:
        founding, member = self.at.town.store.founding(), self.at.helping.founding()
        invitation = {
            "url": self.at.url,
            "fingerprint": fingerprint(founding.identity),
            "helperFingerprint": fingerprint(member.identity),
        }
        self.each("open")
        self.each("setBudget", {"epsilon": 40.0, "delta": 1e-6, "periodDays": None})
        self.each("join", invitation)
        for i, device in enumerate(self.tab_of):
            for visit in range(1 + i % 4):
                place = self.at.town.dataset.places.ids[(3 * i + 5 * visit) % PLACES]
                made = {"place": place, "time": 1_600_000_000 + 3600 * (i + visit)}
                self.ask(device, "recordVisit", made | {"context": {"spend": 11.5 + visit}})

    def added(self) -> list[np.ndarray]:
        """What each of them is about to add."""
        found = self.each("contribution")
        assert all(one is not None and one["why"] is None for one in found.values()), found
        added = [np.array(one["value"], dtype=np.int64) for one in found.values()]
        self.spent = self.spent or added
        return [one.view(np.uint64) for one in added]


async def a_campaign(at: JointTown, tabs: Tabs) -> dict[Round, np.ndarray]:
    """The sum of what all added, by round."""
    sums = dict[Round, np.ndarray]()
    async with AsyncExitStack() as lines:
        agents = await Online(at, lines).agents(list(at.town.people))
        await steps(list(agents.values()))
        await asyncio.to_thread(tabs.join)
        await at.conduct()
        at.begin(SETTINGS)
        for number in range(3 + ROUNDS):
            await at.conduct()
            of = at.task.round
            await steps(list(agents.values()), 2)
            added = await asyncio.to_thread(tabs.added)
            await asyncio.to_thread(tabs.late, of.kind)
            await asyncio.to_thread(tabs.mishap, number)
            outcomes = await asyncio.to_thread(tabs.each, "takePart", {"spread": 0})
            assert outcomes.pop(UNLUCKY)["outcome"] == "arrived before"
            assert {one["outcome"] for one in outcomes.values()} == {"sent"}, outcomes
            mine = [at.added[bytes.fromhex(name), of] for name in agents]
            sums[of] = np.sum([*mine, *added], axis=0, dtype=np.uint64)
            await at.close_window()
            await asyncio.to_thread(tabs.set_clock)
        await at.conduct()
        await steps(list(agents.values()))
    return sums


def check_what_followed(at: JointTown, sums: dict[Round, np.ndarray], people: int) -> np.ndarray:
    """Every published document follows from the sums and the noise; B in the end."""
    campaign, estimate = campaign_of(at.town), None
    rules = campaign.rules
    assert [one.survivors for one in at.state().past] == [people] * len(sums)
    known = Catalogue.read(campaign.edition.manifest, at.town.store.document, basis=campaign).known  # type: ignore[union-attr,arg-type]
    for of, added in sums.items():
        total = (added + at.noise_in(of)).astype(np.uint64)
        if of.kind == "popularity":
            opened = total.view(np.int64) * 2.0**-campaign.visits_norm.fraction_bits
            assert same_bits(np.concatenate([known.counted.sums, known.counted.values[:, 0]]), opened)
            continue
        if of.kind == "quality":
            assert added.view(np.int64)[-3] > 0  # the tabs held something out, or the others
            found = quality_release(campaign, at.state().published, opened=total, reports=people)
            assert published_figures(at.town.store) == PublishedFigures.of(found)
            continue
        code = rules.codes._asdict()[of.kind]
        noise = rules.noise_variance(code, survivors=people, rostered=people)
        if of.kind == "moments":
            moments = rules.moments(total, survivors=people, noise=noise)
            words = WordScales.of(known.features, campaign.columns)
            assert campaign.scales == write_scales(campaign.scales.edition, campaign.columns, moments, words)  # type: ignore[union-attr]
            estimate = Estimate.nothing(campaign.columns, moments)
        else:
            assert estimate is not None
            estimate = rules.moved(estimate, total, survivors=people, noise=noise)
    assert estimate is not None
    return estimate.B


def a_town_with_tabs(folder: Path, monkeypatch: pytest.MonkeyPatch, *, python: int, tabs: int) -> None:
    city = with_spending(small_city(people=python, places=PLACES, records=6 * python))
    port, origin = free_origin()
    with (
        joint_town(city, SETTINGS, folder, monkeypatch, app_origins=(origin,)) as at,
        browser(folder / "certificate.pem", folder, port=port) as line,
    ):
        devices = Tabs(line, at, tabs)
        sums = asyncio.run(a_campaign(at, devices))
        B = check_what_followed(at, sums, python + tabs)
        visited, spent = np.hsplit(np.array(devices.spent), 2)
        assert visited.any()
        assert ((visited > 0) == (spent < 0)).all()  # all that was spent is in the lower half of the range
        devices.each("sync")
        for status in devices.each("status").values():
            assert (status["model"], status["reported"]) == ("campaign 0", False)
            assert status["quality"]["reports"] == python + tabs
        for statement in devices.each("statement").values():
            reports = [one for one in statement["sent"] if one["what"] == "report"]
            assert [one["report"]["state"] for one in reports] == ["arrived"] * len(sums)
            assert statement["budget"]["releases"] == len(sums)
        assert len(devices.each("recommend")) == tabs
        assert np.isfinite(B).all()


def test_devices_of_both_kinds_in_one_campaign(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_town_with_tabs(folder, monkeypatch, python=48, tabs=4)


@pytest.mark.soak
def test_forty_python_devices_and_twenty_tabs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_town_with_tabs(folder, monkeypatch, python=40, tabs=20)
