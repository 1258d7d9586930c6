"""A whole run: what is told, when it stops early, and that an interruption changes nothing."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from prirec.engines import local
from prirec.engines.state import Checkpoint, IterationReport
from prirec.engines.train import Checkpointing, Trained, hold_out, make_engine, models_of, train
from prirec.errors import StateError, UsageError
from prirec.features.columns import moment_rows
from prirec.model import as_printed
from prirec.model.scoring import FactorizationModels, mean_loss, own_model, scores
from prirec.model.shared_model import fill
from support import messages
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    change,
    same_bits,
    same_state,
    samples_of,
    small_city,
)

CITY = small_city(people=50, places=12, records=250)
EAGER = {"linear": {"alpha": 0.5}, "stopping": {"patience": 2, "share": 0.2}}
RUNS = {
    "rounds": change(SMALL_ROUNDS, iterations=5, participation={"online": 0.8, "dropout": 0.1}),
    "paper": change(SMALL_PAPER, iterations=5, participation={"online": 0.8}),
    "paper, among": change(SMALL_PAPER, iterations=5, neighbours={"among": 12}),
    "fm": change(SMALL_FM, iterations=5),
    "private": change(SMALL_PRIVATE, iterations=5),
    "rounds, early stopping": change(SMALL_ROUNDS, iterations=40, stopping={"patience": 2, "share": 0.2}),
    "fm, early stopping": change(SMALL_FM, iterations=40, **EAGER),
}
ALL = pytest.mark.parametrize("settings", RUNS.values(), ids=RUNS)


class InterruptionError(Exception):
    """Something outside ends the run."""


def without_seconds(history: tuple[IterationReport, ...]) -> list[IterationReport]:
    return [msgspec.structs.replace(passed, seconds=None) for passed in history]


def assert_same(a: Trained, b: Trained) -> None:
    assert same_state(a.state, b.state)
    assert type(a.models) is type(b.models)
    assert without_seconds(a.history) == without_seconds(b.history)


def interrupted(samples, settings, checkpointing: Checkpointing, *, at: int) -> None:
    def progress(passed: IterationReport) -> None:
        if passed.iteration == at:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        train(samples, settings, checkpointing=checkpointing, progress=progress)


@ALL
@pytest.mark.parametrize("every", [1, 2])
def test_an_interrupted_run_ends_as_if_nothing_had_happened(tmp_path, settings, every):
    samples = samples_of(CITY, settings)
    whole = train(samples, settings)
    checkpointing = Checkpointing(tmp_path / "run.npz", every=every)
    interrupted(samples, settings, checkpointing, at=3)
    assert_same(train(samples, settings, checkpointing=checkpointing), whole)


@ALL
def test_a_run_continues_from_its_checkpoint_and_not_from_the_start(tmp_path, monkeypatch, settings):
    samples, checkpointing = samples_of(CITY, settings), Checkpointing(tmp_path / "run.npz", every=1)
    interrupted(samples, settings, checkpointing, at=3)

    def begun_anew(self):
        raise InterruptionError

    for kind in (local.Rounds, local.Samplewise, local.Centralised):
        monkeypatch.setattr(kind, "start", begun_anew)
    train(samples, settings, checkpointing=checkpointing)


def test_a_finished_run_may_be_prolonged(tmp_path):
    samples, checkpointing = samples_of(CITY, SMALL_ROUNDS), Checkpointing(tmp_path / "run.npz", every=1)
    train(samples, SMALL_ROUNDS, checkpointing=checkpointing)
    longer = change(SMALL_ROUNDS, iterations=6)
    assert_same(train(samples, longer, checkpointing=checkpointing), train(samples, longer))


def test_a_run_under_a_budget_is_not_prolonged(tmp_path):
    """Its rounds were made as noisy as a run of so many needs: with more of them everyone would spend more than the
    budget, and the run would not be the one that was planned from the start."""
    samples, checkpointing = samples_of(CITY, SMALL_PRIVATE), Checkpointing(tmp_path / "run.npz", every=1)
    train(samples, SMALL_PRIVATE, checkpointing=checkpointing)
    with pytest.raises(StateError):
        train(samples, change(SMALL_PRIVATE, iterations=6), checkpointing=checkpointing)


def test_a_checkpoint_of_a_longer_run_does_not_pass_for_a_shorter_one(tmp_path):
    samples, checkpointing = samples_of(CITY, SMALL_ROUNDS), Checkpointing(tmp_path / "run.npz", every=1)
    train(samples, change(SMALL_ROUNDS, iterations=6), checkpointing=checkpointing)
    try:
        shorter = train(samples, SMALL_ROUNDS, checkpointing=checkpointing)
    except StateError:
        return
    assert shorter.state.iteration == SMALL_ROUNDS.iterations


@pytest.mark.parametrize("changed", ["settings", "data"])
def test_a_checkpoint_of_another_run_is_refused_and_left_alone(tmp_path, changed):
    samples, checkpointing = samples_of(CITY, SMALL_ROUNDS), Checkpointing(tmp_path / "run.npz", every=1)
    train(samples, SMALL_ROUNDS, checkpointing=checkpointing)
    before = checkpointing.path.read_bytes()
    other_samples = replace(samples, places=samples.places + 1) if changed == "data" else samples
    other_settings = change(SMALL_ROUNDS, seed=1) if changed == "settings" else SMALL_ROUNDS
    with pytest.raises(StateError, match=messages.CHECKPOINT_OF_ANOTHER_RUN):
        train(other_samples, other_settings, checkpointing=checkpointing)
    assert checkpointing.path.read_bytes() == before


def test_checkpoints_are_kept_as_often_as_asked(tmp_path):
    samples, path, there = samples_of(CITY, SMALL_ROUNDS), tmp_path / "run.npz", []
    settings = change(SMALL_ROUNDS, iterations=5)
    train(
        samples,
        settings,
        checkpointing=Checkpointing(path, every=4),
        progress=lambda passed: there.append(path.exists()),
    )
    assert there == [False, False, False, True, True]


@ALL
def test_every_iteration_is_reported_once_and_in_order(settings):
    told: list[IterationReport] = []
    trained = train(samples_of(CITY, settings), settings, progress=told.append)
    assert tuple(told) == trained.history
    assert [passed.iteration for passed in told] == list(range(1, len(told) + 1))
    assert all(passed.seconds is not None and passed.seconds >= 0 for passed in told)


def test_after_an_interruption_earlier_iterations_are_reported_again(tmp_path):
    samples, checkpointing = samples_of(CITY, SMALL_ROUNDS), Checkpointing(tmp_path / "run.npz", every=1)
    interrupted(samples, SMALL_ROUNDS, checkpointing, at=2)
    told: list[IterationReport] = []
    train(samples, SMALL_ROUNDS, checkpointing=checkpointing, progress=told.append)
    assert [passed.iteration for passed in told] == [1, 2, 3]


def test_without_patience_everything_is_learnt_from_and_the_last_state_is_returned():
    samples = samples_of(CITY, SMALL_ROUNDS)
    seen, aside = hold_out(samples, SMALL_ROUNDS)
    assert seen is samples
    assert aside is None
    trained = train(samples, SMALL_ROUNDS)
    assert trained.state.iteration == len(trained.history) == 3
    assert all(passed.held_out_loss is None for passed in trained.history)


@pytest.mark.parametrize("name", ["rounds, early stopping", "fm, early stopping"])
def test_early_stopping_returns_the_state_with_the_lowest_held_out_loss(name):
    settings = RUNS[name]
    samples = samples_of(CITY, settings)
    trained = train(samples, settings)
    losses = [passed.held_out_loss for passed in trained.history]
    best = int(np.argmin(losses))
    assert len(losses) < settings.iterations
    assert len(losses) == best + 1 + settings.stopping.patience
    assert trained.state.iteration == best + 1
    seen, aside = hold_out(samples, settings)
    at_best = train(samples, change(settings, iterations=best + 1)).state
    assert same_state(trained.state, at_best)
    assert mean_loss(aside, scores(trained.models, seen, aside)) == losses[best]
    assert mean_loss(aside, scores(models_of(trained.state, seen, settings), seen, aside)) == losses[best]


def test_the_best_state_is_a_copy_that_later_iterations_do_not_move():
    settings = RUNS["fm, early stopping"]
    motor = make_engine("local", samples_of(CITY, settings), settings)
    run = Checkpoint(motor.start())
    passed = motor.advance(run.state)
    run.note(msgspec.structs.replace(passed, held_out_loss=0.5))
    kept = run.best.linear.copy()
    run.note(msgspec.structs.replace(motor.advance(run.state), held_out_loss=0.5))  # equal is not lower
    assert run.best.iteration == 1
    assert same_bits(run.best.linear, kept)
    assert not same_bits(run.state.linear, kept)


def test_patience_is_spent_after_so_many_iterations_without_a_lower_loss():
    run = Checkpoint(make_engine("local", samples_of(CITY, SMALL_ROUNDS), SMALL_ROUNDS).start())
    for iteration, loss in enumerate([0.9, 0.8, 0.85, 0.81], start=1):
        run.state.iteration = iteration
        run.note(IterationReport(iteration=iteration, loss=0.0, took_part=1, in_sum=1, held_out_loss=loss))
    assert run.best.iteration == 2
    assert run.exhausted(2)
    assert not run.exhausted(3)
    assert not run.exhausted(0)


def test_held_out_records_are_a_share_that_is_not_learnt_from():
    settings = change(SMALL_ROUNDS, stopping={"patience": 1, "share": 0.25})
    samples = samples_of(CITY, settings)
    seen, aside = hold_out(samples, settings)
    assert len(aside) == round(0.25 * len(samples.train))
    assert len(seen.train) + len(aside) == len(samples.train)
    for part in (seen.train, aside):
        assert (np.repeat(np.arange(50), part.counts()) == part.person).all()
    rows = [{(*pair, row.tobytes()) for *pair, row in zip(p.person, p.place, p.label, p.context, strict=True)}
            for p in (samples.train, seen.train, aside)]  # fmt: skip
    assert rows[1] | rows[2] == rows[0]
    again = hold_out(samples, settings)[1]
    assert same_bits(again.place, aside.place)


def test_stopping_that_would_hold_nothing_out_is_not_silently_satisfied():
    """With nothing to watch, every loss is 0 and the first iteration would always be 'best'."""
    settings = change(SMALL_ROUNDS, floor=2, iterations=6)
    settings = change(settings, stopping={"patience": 2, "share": 0.01})
    samples = samples_of(small_city(people=8, places=4, records=24), settings)
    try:
        trained = train(samples, settings)
    except UsageError:
        return
    assert len(trained.history) == 6


@pytest.mark.parametrize("settings", [SMALL_PAPER, SMALL_FM], ids=["paper", "fm"])
def test_learning_that_runs_away_is_refused_and_not_returned_as_nan(settings):
    """A history with a loss that is not a number could not be read back either: JSON has no NaN."""
    runaway = change(settings, linear={"alpha": 1e200}, interaction={"alpha": 1e200})
    with pytest.raises(UsageError):
        train(samples_of(CITY, runaway), runaway)


@pytest.mark.parametrize("shared", [True, False], ids=["one model", "a model each"])
def test_scores_are_eq1_with_the_model_of_the_records_person(shared):
    samples, rng = samples_of(CITY, SMALL_ROUNDS), np.random.default_rng(0)
    linear = rng.normal(size=(1 if shared else 50, samples.features + 1))
    interaction = rng.normal(size=(samples.features, 3)) / 5
    models = FactorizationModels(linear, interaction)
    found = scores(models, samples, samples.test)
    for row in range(0, len(samples.test), 7):
        i, j = samples.test.person[row], samples.test.place[row]
        x = np.concatenate([samples.people[i], samples.places[j], samples.test.context[row]]).astype(float)
        assert found[row] == pytest.approx(as_printed.predict(linear[0 if shared else i], interaction, x), rel=1e-9)
    parts = [
        scores(FactorizationModels(linear, interaction), samples, samples.test, people=(a, a + 25)) for a in (0, 25)
    ]
    assert same_bits(np.concatenate(parts), found)
    margins = found * samples.test.label
    assert mean_loss(samples.test, found) == pytest.approx(np.log1p(np.exp(-margins)).mean(), rel=1e-9)


def test_scores_of_rounds_are_those_of_what_the_records_person_learns_alone():
    samples = samples_of(CITY, SMALL_ROUNDS)
    engine = make_engine("local", samples, SMALL_ROUNDS)
    state = engine.start()
    engine.advance(state)
    models, test = models_of(state, samples, SMALL_ROUNDS), samples.test
    found, b = scores(models, samples, test), np.empty(samples.columns.layout.width)
    moment = moment_rows(test.context, samples.columns, state.moments)
    for row in range(0, len(test), 7):
        fill(test.place[row], moment[row], engine.rows, models.shared, b)
        own = own_model(models, samples, int(test.person[row]))
        assert found[row] == pytest.approx(models.shared.base + own @ b, rel=1e-9)
    parts = [scores(models, samples, test, people=people) for people in ((0, 7), (7, 7), (7, len(samples.ids)))]
    assert same_bits(np.concatenate(parts), found)


def test_the_sum_of_moments_is_the_same_however_many_people_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine("local", samples_of(CITY, RUNS["rounds"]), RUNS["rounds"], threads=1)
    together, many = engine.moment_sum()
    monkeypatch.setattr(local, "_BLOCK", 7)
    in_parts, again = engine.moment_sum()
    assert many == again < len(engine.samples.ids)  # some drop out
    assert same_bits(in_parts, together)
    assert together.any()
