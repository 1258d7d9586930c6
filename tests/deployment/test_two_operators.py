"""A campaign over two operators that run as services over HTTPS, with the devices of a whole town as agents: B is that
of the oracle, given who reported in which window and what the operators drew; and nothing that is one person's is in
what either operator receives, opens, computes, logs or stores."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from prirec.data.dataset import Dataset, Numbers
from prirec.device.client import tls_context
from prirec.device.device import status
from prirec.device.sync import View
from prirec.errors import Fault, PeerError
from prirec.pages import built
from prirec.privacy.quality_figures import read as read_figures
from prirec.proofs.field import elements_of
from prirec.protocols.codec import encode
from prirec.protocols.messages import Round
from prirec.protocols.party import Stage
from prirec.protocols.two_operators import _statement
from prirec.recommender.operator import published_averages, published_figures
from prirec.recommender.release import Catalogue
from prirec.sharing.keys import SigningKey
from support.canaries import Canaries, of_pair, of_reals, of_ring, of_text, on_disk
from support.cities import SMALL_PRIVATE, change, same_bits, same_state, small_city, with_spending
from support.joint_deployment import JointTown, Online, joint_town, made_by, steps
from support.low_floors import low_floor
from support.simulated_deployment import (
    by_the_oracle_in_windows,
    campaign_of,
    figures_added,
    samples_of,
    state_of,
)
from support.tapped_operators import Heard, tapped_operators

PEOPLE, FLOOR, ROUNDS = 52, 45, 2
LIAR, LATE = SigningKey(b"\x51" * 32), SigningKey(b"\x52" * 32)
# a budget with which popularity rises out of the noise of so few; and so much held out that an AUC does too
SETTINGS = change(
    SMALL_PRIVATE, iterations=ROUNDS, floor=FLOOR, sums={"operators": 2},
    privacy={"epsilon_per_user": 40.0, "quality": 0.5}, features={"averages": ("spend",)},
    data={"train_share": 0.6},
)  # fmt: skip

CHANNELS = {
    *(f"{done} the {who}" for done in ("asked of", "answered by") for who in ("recommender", "helper")),
    *(f"opened by the {role}" for role in ("leader", "helper")), "log", "disks",
}  # fmt: skip


def a_city() -> Dataset:
    """What a visit cost is known to the cent and beyond, so that no amount looks like anything else."""
    city = with_spending(small_city(people=PEOPLE, places=90, records=15 * PEOPLE))
    spend = 0.98 * city.visits.context["spend"].values + np.random.default_rng(5).uniform(0, 2, len(city.visits))
    return city.with_visits(replace(city.visits, context={"spend": Numbers(spend)}))


def a_lie(at: JointTown) -> bytes:
    """A report with the proof of another vector than its shares hold."""
    task = at.task
    zeros = np.zeros(task.terms.length, np.uint64)
    one = made_by(LIAR, task, zeros)
    one_more = zeros.copy()
    one_more[0] = 1
    other = made_by(LIAR, task, one_more)
    lie = msgspec.structs.replace(one, leader_box=other.leader_box)
    return encode(msgspec.structs.replace(lie, signature=LIAR.sign(encode(_statement(lie.held, lie)))))


async def a_campaign(at: JointTown) -> dict[Round, set[str]]:
    """Who is in each sum. One device is online in every second window only; a liar reports in every one, and somebody
    else when the window is over."""
    absent, reported = next(iter(at.town.people)), dict[Round, set[str]]()
    async with AsyncExitStack() as lines:
        online = Online(at, lines)
        agents = await online.agents(list(at.town.people))
        liar, late = await online.stranger(LIAR), await online.stranger(LATE)
        await steps(list(agents.values()))
        await at.conduct()
        at.begin(SETTINGS)
        for number in range(3 + ROUNDS):
            await at.conduct()
            of, there = at.task.round, {name for name in agents if not (number % 2 and name == absent)}
            await steps([agents[name] for name in there], 2)
            lie, too_late = a_lie(at), made_by(LATE, at.task, np.zeros(at.task.terms.length, np.uint64))
            for _ in range(2):  # the same bytes once more are the same report
                await liar.report(lie)
            await at.close_window()
            with pytest.raises(PeerError) as refused:
                await late.report(encode(too_late))
            assert refused.value.fault is Fault.ORDER
            reported[of] = there
        await at.conduct()
        await steps(list(agents.values()))
    return reported


def test_a_campaign_over_two_operators_gives_the_bits_of_the_oracle(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    low_floor(monkeypatch, FLOOR)
    with tapped_operators(monkeypatch) as heard, joint_town(a_city(), SETTINGS, folder, monkeypatch) as at:
        for name, person in at.town.people.items():
            person.set_profile({"nickname": f"canary {name[:12]}"})
        reported = asyncio.run(a_campaign(at))
        progress = at.state()
        assert (progress.phase, at.state(at.helping).phase) == ("over", "over")
        assert [one.survivors for one in progress.past] == [len(names) for names in reported.values()]
        assert [len(names) for names in reported.values()] == [PEOPLE, PEOPLE - 1, PEOPLE, PEOPLE - 1, PEOPLE]
        assert at.town.store.head() == at.helping.head()

        campaign = campaign_of(at.town)
        where = {of: (of.kind, campaign.iteration(of.number)) for of in reported}
        noise = {where[of]: at.noise_in(of) for of in reported}

        # the sum of visits, as it is published
        visits = next(of for of in reported if of.kind == "popularity")
        added = np.sum([at.added[bytes.fromhex(name), visits] for name in reported[visits]], axis=0, dtype=np.uint64)
        whole = (added + noise["popularity", 0]).view(np.int64)
        counted = Catalogue.read(campaign.edition.manifest, at.town.store.document, basis=campaign).known.counted  # type: ignore[union-attr,arg-type]
        opened = whole * 2.0**-campaign.visits_norm.fraction_bits
        assert same_bits(np.concatenate([counted.sums, counted.values[:, 0]]), opened)

        # the averages, which samples_of below holds to the simulation: they are columns of places, and have an error
        (average,) = published_averages(at.town.store)
        assert abs(average.value - 50) < 30  # it is 50, with a standard error of 4
        assert 0 < average.noise < 8
        assert ("average spend" in counted.names) == (average.spread > 0) == (average.error > 0)

        # everything that follows
        expected = by_the_oracle_in_windows(
            samples_of(at.town, campaign), campaign, noise, monkeypatch,
            reported={where[of]: there for of, there in reported.items()},
        )  # fmt: skip
        assert same_state(state_of(at.town), expected)

        # the quality figures: each person's part, what was opened, and what is read of it
        last = next(of for of in reported if of.kind == "quality")
        simulated = figures_added(at.town, campaign, expected)
        assert all(same_bits(at.added[bytes.fromhex(name), last].view(np.int64), simulated[name]) for name in simulated)
        parts = np.array(list(simulated.values()))
        assert parts.any(axis=1).mean() > 0.4  # of the others nothing was held out
        assert parts[:, 24:26].any(axis=0).all()  # some have a miss, some a hit
        total = parts.sum(axis=0) + noise["quality", ROUNDS].view(np.int64)
        assert same_bits(at.opened(last).view(np.int64), total)
        variance = campaign.figures.noise().total_variance(PEOPLE)
        figures = read_figures(total, norm=campaign.figures.norm, noise_variance=variance)
        assert figures.auc is not None
        shown = published_figures(at.town.store)
        assert shown is not None
        assert (shown.figures["auc"], shown.reports) == (figures.auc, PEOPLE)
        assert at.state(at.helping).owed == ()
        for name, person in at.town.people.items():
            view = View.of(person)
            assert (view.over, view.learnt) == (True, True)
            assert status(person).membership.quality == shown  # type: ignore[union-attr]
            model, basis, _ = view.publication  # type: ignore[misc]
            assert same_bits(basis.shared(model), expected.estimate.B)
            sums = [of for of, there in reported.items() if name in there]
            assert all(person.store.entry(of).stage is Stage.AGREED for of in sums)  # type: ignore[union-attr]
            assert len(_charges(person)) == len(sums)
        look_at_every_page(at)
        check_canaries(at, folder, heard)


def _charges(person) -> list[tuple[str, int]]:  # type: ignore[no-untyped-def]
    with person.store.reading() as rows:
        return rows.execute("SELECT kind, number FROM spending").fetchall()


def look_at_every_page(at: JointTown) -> None:
    """As an auditor and both operators do: every file of their pages, and every answer that these ask for."""
    trust, store = tls_context(at.authority), at.town.store
    documents = [name.hex() for (name,) in store._all("SELECT name FROM documents")]
    public = ["/v1/deployment", "/v1/rotations", "/v1/log?after=0", *(f"/v1/documents/{one}" for one in documents)]
    own = ["/operator/overview", "/metrics"]
    asked = [(at.url, "audit", public, None), (at.pages["recommender"], "operator", own, store)]
    plain = {"accept-encoding": "identity"}  # what is packed could not be searched
    for url, name, answers, of in (*asked, (at.pages["helper"], "operator", own, at.helping)):
        with httpx.Client(base_url=url, verify=trust, trust_env=False, headers=plain) as browser:
            if of is not None:
                given = {"token": of.logins.new_token()}
                assert browser.post("/operator/login", json=given, headers={"origin": url}).is_success
            files = [f"/{name}/{one.relative_to(built(name))}" for one in built(name).rglob("*") if one.is_file()]
            for path in (*files, *answers):
                answer = browser.get(path)
                assert answer.is_success, path
                assert "content-encoding" not in answer.headers


def planted_in(at: JointTown) -> tuple[Canaries, Canaries]:
    """All that is private, and the names of devices."""
    canaries, names = Canaries(), Canaries()
    for name, person in at.town.people.items():
        member, home = person.require_membership(), person.home()
        canaries.add("secret", {member.secret, member.secret.hex().encode()})
        names.add(name, {member.name})
        if home is not None:
            canaries.add("home", of_pair(*home))
        for amount in (visit.context["spend"] for visit in person.visits() if visit.context):
            # twelve digits: the log says when things happened to as many as eight
            canaries.add("amount", of_reals(np.array([amount])) | of_text(f"{amount!r}"[:12]))
        canaries.add("profile", of_text(str(person.profile()["nickname"])))
    for value in at.added.values():
        if np.count_nonzero(value) > 3:
            canaries.add("vector", of_ring(value) | of_ring(elements_of(value.view(np.int64))))
    return canaries, names


def check_canaries(at: JointTown, folder: Path, heard: Heard) -> None:
    """Neither operator sees a vector, an amount, a home, a word of a profile, or a device's secret; but it sees who
    reports."""
    canaries, names = planted_in(at)
    assert {"secret", "home", "profile", "amount", "vector"} == set(canaries.patterns.values())
    heard["disks"] += on_disk(folder, "helper", "recommender")
    for channel, said in heard.items():
        assert not canaries.found(b"\0\0".join(said)), channel
    assert {channel for channel, said in heard.items() if any(said)} == CHANNELS
    for who in ("recommender", "helper"):
        answered = b"".join(heard[f"answered by the {who}"])
        assert all(words in answered for words in (b"<title>Operator", b'"verdict":', b"prirec_build{"))
    assert b"<title>What this recommender has published" in b"".join(heard["answered by the recommender"])
    for channel in ("asked of the recommender", "asked of the helper", "disks"):
        assert names.found(b"\0\0".join(heard[channel])) == at.town.people.keys()
    for role in ("leader", "helper"):  # of each report the share, its entries, and what the other is told of them
        assert len(heard[f"opened by the {role}"]) == 3 * len(at.added)
    planted = max(at.added.values(), key=np.count_nonzero)
    for form in (planted, elements_of(planted.view(np.int64))):
        assert canaries.found(b"junk" + form.tobytes() + b"junk") == {"vector"}
