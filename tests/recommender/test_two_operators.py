"""Two operators with a store each: a whole campaign of windows, and what becomes of it when either of them dies."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from prirec.errors import Fault, PeerError, PolicyError, UsageError
from prirec.protocols.codec import decode, encode
from prirec.protocols.journal import ConflictError
from prirec.protocols.messages import Batch, Closing, NoisedShare, OpenedSum, Report
from prirec.protocols.party import Persist, Stage
from prirec.protocols.two_operators import _statement
from prirec.recommender import operator
from prirec.recommender.database import back_up
from prirec.recommender.joint_conductor import MOST_EXTENSIONS, SIGN_EVERY
from prirec.recommender.operator import HelperAddress, end_campaign
from prirec.recommender.peer import HelperAwayError
from prirec.recommender.recommender import Helper
from prirec.recommender.store import Store
from prirec.types import DAY
from prirec.wire.documents import Figures, read
from prirec.wire.operators import Said, Say
from support import messages
from support.low_floors import low_floor
from support.operator_pair import HOUR, OperatorPair, few, person
from support.operators_windows import WHO, assert_exact, assert_over, window
from support.rounds import altered


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, 2)


@pytest.fixture
def pair(tmp_path: Path) -> OperatorPair:
    return OperatorPair(tmp_path)


def test_a_campaign_of_windows_ends_with_a_model_that_the_helper_has_computed_itself(pair: OperatorPair) -> None:
    charter = pair.begin()
    assert charter.most == 16
    for who in WHO:
        assert_exact(pair, window(pair, *who), who)
    pair.run()
    assert_over(pair)
    assert [past.survivors for past in pair.state().past] == [7, 6, 6, 6]
    assert all(past.opened for past in pair.state().past)


# Windows


def test_below_the_floor_a_window_is_extended_with_the_reports_that_it_has(pair: OperatorPair) -> None:
    pair.begin()
    task = window(pair, 0, 1, 2)
    assert pair.state().attempt == 1
    assert pair.task == task  # nobody is charged again: the task is the same, and so is every report
    first, second = pair.entries("window")
    assert (second.bound, second.opens) == (first.bound, first.opens)
    assert second.closes == first.closes + HOUR
    window(pair, 4, 6)
    assert pair.state().phase == "moments"
    assert_exact(pair, task, (0, 1, 2, 4, 6))


def test_a_window_to_which_too_few_come_is_given_up_in_the_end(pair: OperatorPair) -> None:
    """Without visits there is no campaign; in learning B stays as it was, and the campaign goes on."""
    pair.begin()
    for who in WHO[:2]:
        window(pair, *who)
    for _ in range(MOST_EXTENSIONS + 1):
        window(pair, 0, 1)
    assert pair.state().iteration == pair.state(pair.helping).iteration == 1
    assert not pair.state().past[-1].opened
    window(pair, *WHO[3])
    assert_over(pair)
    assert pair.state().rounds == 1
    pair.begin()
    for _ in range(MOST_EXTENSIONS + 1):
        window(pair, 0, 1)
    pair.run()
    assert pair.state().phase == pair.state(pair.helping).phase == "failed"


MEASURED = few(privacy={"quality": 0.2})


def test_quality_figures_are_summed_when_the_model_is_published(pair: OperatorPair) -> None:
    pair.begin(MEASURED)
    for who in WHO:
        window(pair, *who)
    assert pair.state().phase == pair.state(pair.helping).phase == "quality"
    model = pair.leading.last("publication")
    assert_exact(pair, window(pair, *WHO[0]), WHO[0])
    pair.run()
    assert_over(pair)
    last = pair.leading.last("figures")
    assert model is not None
    assert last is not None
    figures = read(Figures, pair.fetch(last.document), name=last.document)
    assert (figures.model, figures.reports) == (model.document, len(WHO[0]))
    assert pair.state().past[-1].kind == "quality"
    found = operator.deployment_status(pair.leading)
    assert found.quality is not None
    assert set(found.quality.figures) == {one.name for one in figures.figures}


def test_a_model_whose_quality_too_few_report_is_published_all_the_same(pair: OperatorPair) -> None:
    pair.begin(MEASURED)
    for who in WHO:
        window(pair, *who)
    for _ in range(MOST_EXTENSIONS + 1):
        window(pair, 0, 1)
    pair.now += SIGN_EVERY  # the log says nothing of it, so the helper hears that it is over when it signs again
    pair.run()
    assert_over(pair)
    assert not pair.state().past[-1].opened
    assert pair.leading.last("publication") is not None
    assert pair.leading.last("figures") is None
    pair.begin()  # and another one may begin


def test_who_enrols_later_joins_the_next_window_and_who_leaves_is_on_no_further_one(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    pair.leading.enrol(person(20).public, day=0)
    pair.leading.leave(person(7).public)
    pair.run()
    assert pair.window.people == 8
    pair.post(*WHO[0])
    pair.now += HOUR
    pair.run()
    assert pair.window.people == 8
    assert [len(one.names) for one in (*pair.entries("joined"), *pair.entries("left"))] == [8, 1, 1]
    window(pair, 0, 1, 2, 3, 20)
    assert pair.state().past[-1].survivors == 5


def test_no_more_join_during_a_campaign_than_its_sums_are_sized_for(pair: OperatorPair) -> None:
    charter = pair.begin()
    for at in range(20, 40):
        pair.leading.enrol(person(at).public, day=0)
    window(pair, *WHO[0])
    assert pair.window.people == charter.most == 16
    names = {name for one in pair.entries("joined") for name in one.names}
    first = sorted(person(at).public for at in range(20, 40))[:8]
    assert not set(first) <= names  # by lot, of which this one has odds of 1 in 125,970


def test_a_window_opens_when_as_many_as_the_floor_have_joined(tmp_path: Path) -> None:
    pair = OperatorPair(tmp_path, people=6)
    pair.begin()
    for at in (4, 5):
        pair.leading.leave(person(at).public)
    pair.run()
    assert not pair.state().window
    pair.leading.enrol(person(5).public, day=0)
    pair.run()
    assert pair.window.people == 5


def test_while_the_helper_is_away_sums_wait_for_it(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    task = pair.task
    pair.post(*WHO[0])
    pair.away = True
    pair.now += HOUR
    with pytest.raises(HelperAwayError):
        pair.conductor.tick()
    pair.away = False
    pair.run()
    assert_exact(pair, task, WHO[0])


def test_a_campaign_that_its_operator_ends_leaves_nothing_of_its_reports_at_either(pair: OperatorPair) -> None:
    pair.begin()
    window(pair, *WHO[0])
    pair.post(0, 1, 2)
    pair.run()
    task = pair.task
    end_campaign(pair.leading)
    pair.run()
    for store in (pair.leading, pair.helping):
        kept = store.joint.kept(task.round)
        assert kept is None or (kept.stage, kept.payload, kept.state) == (Stage.BURNT, b"", b"")
        assert store._one("SELECT count(*) FROM reports WHERE body IS NOT NULL") == (0,)
    pair.begin()
    for who in WHO:
        window(pair, *who)
    assert_over(pair)


def test_a_conflict_at_either_burns_the_round_and_the_campaign_goes_on(pair: OperatorPair) -> None:
    pair.begin()
    for who in WHO[:2]:
        window(pair, *who)
    for who in ("leading", "helping"):
        store: Store = getattr(pair, who)
        pair.run()
        of = pair.task.round
        pair.post(0, 1, 2)
        pair.run()
        if store.joint.kept(of) is None:
            store.joint.write(Persist(of, Stage.ENTERED, bytes(32)))
        with pytest.raises(ConflictError):
            store.joint.write(Persist(of, Stage.ENTERED, b"\1" * 32))
        assert store.joint.stage(of) is Stage.BURNT
        pair.restart()
        pair.now += HOUR
        pair.run()
    assert pair.state().iteration == pair.state(pair.helping).iteration == 2
    assert [past.opened for past in pair.state().past] == [True, True, False, False]


def by_backup(pair: OperatorPair, folder: Path) -> None:
    back_up(folder / "helper.db", folder / "copy.db")
    pair.helping.close()
    for end in ("", "-wal", "-shm"):
        (folder / f"helper.db{end}").unlink(missing_ok=True)
    Helper.restore(folder / "helper.db", file=folder / "copy.db")


def by_other_means(pair: OperatorPair, folder: Path) -> None:
    """All files, as they are; then the command makes them safe."""
    pair.helping.close()
    Helper.restore(folder / "helper.db")


@pytest.mark.parametrize("restore", [by_backup, by_other_means])
@pytest.mark.parametrize("decided", [0, 3], ids=["before a batch", "after one"])
def test_a_helper_that_is_restored_opens_nothing_that_began_before_and_helps_with_the_next_campaign(
    pair: OperatorPair, tmp_path: Path, decided: int, restore: Callable[[OperatorPair, Path], None]
) -> None:
    pair.begin()
    pair.run()
    task = pair.task
    if decided:
        window(pair, *WHO[0][:decided])  # below the floor: extended
    restore(pair, tmp_path)
    pair.restart_helper()
    pair.post(*WHO[0])
    pair.now += HOUR
    with pytest.raises(PeerError, match=messages.RESTORED_OPERATOR):
        pair.conductor.tick()
    end_campaign(pair.leading)  # as the message says
    pair.run()
    assert pair.helping.joint.stage(task.round) in (None, Stage.BURNT)
    pair.begin()
    for who in WHO:
        window(pair, *who)
    assert_over(pair)


def test_a_deployment_has_two_operators_from_its_beginning_or_one(tmp_path: Path, pair: OperatorPair) -> None:
    with Store.open(tmp_path / "one.db") as store:
        operator.found_deployment(store, title="a town")
        with pytest.raises(PolicyError, match=messages.NO_HELPER):
            operator.begin_campaign(store, few())
    with pytest.raises(UsageError, match=messages.WINDOW_LENGTH):
        pair.begin(window=0)
    with pytest.raises(UsageError, match=messages.OTHER_PAIR):
        operator.pair_helper(pair.helping, deployment="00" * 16, recommender="11" * 32)
    with pytest.raises(UsageError, match=messages.WHOLE_KEY):
        HelperAddress.of("https://helper.example", "00")
    with pytest.raises(UsageError, match=messages.HELPER_ADDRESS):
        HelperAddress.of("http://helper.example", "00" * 32)


def test_the_status_says_what_each_period_and_a_lifetime_ask_of_a_person(pair: OperatorPair) -> None:
    assert operator.deployment_status(pair.leading).promise is None
    asked = few(iterations=1, privacy={"epsilon_per_user": 2.0, "period_days": 30})
    for campaign in (1, 2, 3):
        pair.begin(asked)
        pair.run()
        end_campaign(pair.leading)
        pair.now += 30 * DAY
        pair.run()
        found = operator.deployment_status(pair.leading).promise
        assert found is not None
        assert (found.epsilon, found.period_days, found.campaigns) == (2.0, 30, campaign)
        assert 2.0 * campaign**0.5 * 0.95 < found.lifetime < 2.0 * campaign + 1e-9
    assert found.words == "ε = 2 in any 30 days (δ = 1e-06)"


# Reports at the door


def test_what_is_no_report_of_the_open_window_is_not_taken(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    task = pair.task
    report, late = pair.report(0), pair.report(1)

    def faults(*posted: Report, now: float = pair.now) -> list[Fault | None]:
        found = pair.leading.joint.post([(one, encode(one)) for one in posted], now=now)
        return [None if one is None else one.fault for one in found]

    other_round = altered(report, round=altered(report.round, number=7))
    other_terms = altered(report, held=bytes(32))
    longer = altered(report, leader_box=report.leader_box + b"1")
    second = altered(report, nonce=bytes(16))
    assert faults(other_round, other_terms, longer) == [Fault.ORDER, Fault.PARAMS_MISMATCH, Fault.DECODE]
    assert faults(longer, report, report, second) == [Fault.DECODE, None, None, Fault.EQUIVOCATION]
    assert faults(report, second) == [None, Fault.EQUIVOCATION]
    assert faults(late, report, now=pair.now + HOUR) == [Fault.ORDER, None]  # one of them has arrived before
    assert pair.leading.joint.count_reports(task.round) == 1


def test_a_lying_report_is_dropped_alone(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    task = pair.task
    pair.post(0, 1, 2, 3, 4)
    honest, box = pair.report(5), pair.report(6).helper_box
    lie = altered(honest, helper_box=box)
    said = _statement(lie.held, lie)
    lie = altered(lie, signature=person(5).sign(encode(said)))
    stranger = pair.report(30)
    for one in (lie, stranger):
        pair.leading.joint.post([(one, encode(one))], now=pair.now)
    pair.run()
    pair.now += HOUR
    pair.run()
    assert_exact(pair, task, (0, 1, 2, 3, 4))


def test_a_device_that_is_excluded_is_not_in_the_sum_unless_both_have_accepted_its_report(pair: OperatorPair) -> None:
    pair.begin()
    pair.run()
    task = pair.task
    pair.post(0, 1, 2)
    pair.run()
    pair.now += HOUR
    pair.run()  # below the floor: extended, and both have decided on these
    pair.post(3, 4, 5, 6)
    for at in (2, 6):
        assert pair.leading.exclude(person(at).public, reason="lied", day=0)
    pair.now += HOUR
    pair.run()
    assert_exact(pair, task, (0, 1, 2, 3, 4, 5))


# Either dies


def campaign(folder: Path, dies: int | None) -> OperatorPair:
    pair = OperatorPair(folder)
    pair.begin(few(iterations=1))
    pair.moment, pair.dies = 0, dies
    pair.moments.clear()
    for who in WHO[:3]:
        task = window(pair, *who)
        assert_exact(pair, task, who)
    pair.run()
    return pair


MOMENTS = 196  # before and after each write of either
# A death at each kind of write, before or after it, is in make test; all are in make soak.
ONE_OF_EACH = {11, 21, 45, 46, 50, 60, 71, 84, 97, 98, 101, 102, 123, 188, 195}


def test_there_are_so_many_moments_and_of_each_kind_some_are_chosen(tmp_path: Path) -> None:
    pair = campaign(tmp_path, None)
    assert_over(pair)
    assert pair.moment == len(pair.moments) == MOMENTS
    assert {pair.moments[at] for at in ONE_OF_EACH} == set(pair.moments)
    assert {at % 2 for at in ONE_OF_EACH} == {0, 1}


def assert_survived(folder: Path, dies: int) -> None:
    pair = campaign(folder, dies)
    assert len(pair.deaths) == 1
    assert_over(pair)
    assert_one_content_for_each_place(pair)
    assert [past.opened for past in pair.state().past] == [True] * 3


def assert_one_content_for_each_place(pair: OperatorPair) -> None:
    """Over all lives: one batch for a number, one closing, one share and one signature of each, in each round."""
    said: dict[Any, set[bytes]] = {}
    for body in [*pair.asked, *pair.answered]:
        for message in messages_in(body):
            if isinstance(message, Batch | Closing | NoisedShare | OpenedSum):
                place = type(message), message.round, message.sender, getattr(message, "number", 0)
                said.setdefault(place, set()).add(encode(message))
    assert said
    assert all(len(contents) == 1 for contents in said.values())


def messages_in(body: bytes) -> list[Any]:
    """Messages of a sum that one operator has sent the other."""
    try:
        content = msgspec.msgpack.decode(body, type=Say | Said)
    except msgspec.ValidationError:
        return []
    return [decode(one) for one in ((content.message,) if isinstance(content, Say) else content.messages)]


DEATHS = [pytest.param(at, marks=[] if at in ONE_OF_EACH else pytest.mark.soak) for at in range(MOMENTS)]


@pytest.mark.parametrize("dies", DEATHS)
def test_a_death_at_any_write_leaves_exact_sums_with_one_draw_of_noise_each(dies: int, tmp_path: Path) -> None:
    assert_survived(tmp_path, dies)
