"""On a real Ray cluster of several nodes the bits are those of engines/local, whatever dies on the way."""

import threading
from functools import partial

import numpy as np
import pytest

from prirec.cluster import pool
from prirec.cluster import train as gathered
from prirec.cluster.pool import LOOPBACK, import_ray
from prirec.cluster.train import train
from prirec.cluster.worker import GivenPeople
from prirec.engines import train as training
from prirec.engines.train import Checkpointing
from prirec.errors import StateError, UsageError
from support import messages
from support.cities import SMALL_PAPER, SMALL_PRIVATE, SMALL_ROUNDS, change, same_bits, same_state, samples_of
from support.cluster_runs import after_all, in_actors, moved_into
from support.engine_twins import UNUSUAL_CITIES, city
from support.failing_shards import Doomed
from support.setting_variants import PRIVATE_ROUNDS, ROUNDS
from support.shards import assert_shards_equal_the_oracle, cut, pieces_of
from support.waiting import until

pytestmark = [pytest.mark.usefixtures("nodes"), pytest.mark.xdist_group("ray")]  # one process has the cluster
LOSSY = {"online": 0.85, "dropout": 0.15}
LONGER = change(SMALL_ROUNDS, iterations=6, participation=LOSSY)


def is_uninterrupted(state, samples, settings) -> bool:
    return same_state(state, training.train(samples, settings).state)


@pytest.mark.long
def test_sums_added_by_a_high_tree_have_the_bits_of_one_machine(monkeypatch):
    monkeypatch.setattr(pool, "FAN_IN", 2)
    settings = change(SMALL_ROUNDS, participation=LOSSY)
    samples = samples_of(city(), settings)
    rows = [np.flatnonzero(np.arange(len(samples.ids)) % 5 == shard) for shard in range(5)]
    assert_shards_equal_the_oracle(samples, settings, rows, made=in_actors)


VARIANTS = {
    **{f"rounds, {name}": change(SMALL_ROUNDS, **changes) for name, changes in ROUNDS.items()},
    **{f"private, {name}": change(SMALL_PRIVATE, **changes) for name, changes in PRIVATE_ROUNDS.items()},
}


@pytest.fixture(scope="module")
def three_actors(nodes):
    """Started once, and given other people by each test."""
    samples = samples_of(city(), SMALL_ROUNDS)
    made = in_actors(pieces_of(samples, cut(samples, 3)), SMALL_ROUNDS)
    yield made
    made.dismiss()


# Shards of one process go through all variants by default (tests/conformance); here each takes actors a second or two.
SOME = ("rounds, as preset", "rounds, some offline, some lost", "private, as preset", "private, 32 bits")


@pytest.mark.parametrize(
    "settings",
    [pytest.param(one, id=name, marks=[] if name in SOME else pytest.mark.soak) for name, one in VARIANTS.items()],
)
def test_every_variant_of_the_conformance_suite_has_the_bits_of_one_machine(settings, three_actors):
    samples = samples_of(city(), settings)
    assert_shards_equal_the_oracle(samples, settings, cut(samples, 3), made=partial(moved_into, three_actors))


def test_people_dealt_out_to_actors_and_sums_added_by_a_tree_have_the_bits_of_one_machine(three_actors, monkeypatch):
    monkeypatch.setattr(pool, "FAN_IN", 2)
    settings = change(SMALL_ROUNDS, participation=LOSSY)
    samples = samples_of(city(), settings)
    rows = [np.flatnonzero(np.arange(len(samples.ids)) % 3 == shard) for shard in range(3)]
    assert_shards_equal_the_oracle(samples, settings, rows, made=partial(moved_into, three_actors))


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(made, id=name, marks=pytest.mark.soak if at else [])
        for at, (name, made) in enumerate(UNUSUAL_CITIES.items())
    ],
)
def test_unusual_cities_on_a_cluster_have_the_bits_of_one_machine(made, three_actors):
    settings = change(SMALL_PRIVATE, participation=LOSSY)
    samples = samples_of(made(), settings)
    rows = [np.flatnonzero(np.arange(len(samples.ids)) % 3 == shard) for shard in range(3)]
    assert_shards_equal_the_oracle(samples, settings, rows, made=partial(moved_into, three_actors))


# By default a whole training is one over parts, in test_partitioned_cities_on_a_cluster.py.
@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [pytest.param(SMALL_ROUNDS, id="rounds", marks=pytest.mark.soak), pytest.param(SMALL_PRIVATE, id="private")],
)
def test_a_whole_training_has_the_models_and_the_history_of_the_local_engine(settings):
    samples, told = samples_of(city(), settings), []
    found, wanted = train(samples, settings, actors=2, progress=told.append), training.train(samples, settings)
    assert same_state(found.state, wanted.state)
    assert same_bits(found.models.shared.crossing, wanted.models.shared.crossing)
    assert [(p.iteration, p.loss, p.took_part, p.in_sum, p.opened) for p in found.history] == [
        (p.iteration, p.loss, p.took_part, p.in_sum, p.opened) for p in wanted.history
    ]
    assert told == list(found.history)
    assert all(passed.moved > 0 and passed.seconds > 0 for passed in told)


# What dies


@pytest.mark.parametrize("at", [pytest.param(0, id="the first round", marks=pytest.mark.soak), 4])
def test_an_actor_killed_in_the_middle_of_a_round_changes_no_bit_and_costs_that_round_alone(at, tmp_path):
    samples, told = samples_of(city(), LONGER), []
    doomed = partial(Doomed, at=at, mark=tmp_path / "killed", kill=True)
    state, mended = after_all(
        samples, LONGER, source=lambda shard, share: doomed(share) if shard == 1 else GivenPeople(share),
        progress=told.append,
    )  # fmt: skip
    assert (tmp_path / "killed").exists()
    assert mended == 1
    assert is_uninterrupted(state, samples, LONGER)
    assert [passed.iteration for passed in told] == [1, 2, 3, 4, 5, 6]


@pytest.mark.long
def test_a_node_killed_in_the_middle_of_a_round_changes_no_bit(nodes, tmp_path):
    """Three nodes, three actors; what was on the dead one goes on elsewhere, with fewer processors than actors."""
    node = nodes.add_node(num_cpus=1, object_store_memory=80 * 2**20, node_ip_address=LOOPBACK)
    samples, mark = samples_of(city(), LONGER), tmp_path / "in the round"
    ray = import_ray()

    def taken_down() -> None:
        until(mark.exists)
        nodes.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=taken_down)
    killer.start()
    try:
        state, mended = after_all(
            samples, LONGER, source=lambda shard, share: OnNode(share, node=node.node_id, mark=mark), shards=3
        )
    finally:
        killer.join()
    assert mark.exists()
    assert mended >= 1
    assert len([one for one in ray.nodes() if one["Alive"]]) == 2
    assert is_uninterrupted(state, samples, LONGER)


class OnNode(Doomed):
    """Waits in round 3 where it finds itself on this node."""

    def __init__(self, share, *, node, mark):
        super().__init__(share, at=3, mark=mark, kill=False)
        self.node = node

    def shard(self, settings, public):
        here = import_ray().get_runtime_context().get_node_id() == self.node
        return super().shard(settings, public) if here else GivenPeople.shard(self, settings, public)


# Going on


@pytest.mark.long
def test_a_run_goes_on_from_its_checkpoint_with_any_engine(tmp_path):
    samples, kept = samples_of(city(), LONGER), Checkpointing(tmp_path / "kept", every=2)
    training.train(samples, change(LONGER, iterations=2), checkpointing=kept)
    train(samples, change(LONGER, iterations=4), actors=2, checkpointing=kept)
    told = []
    found = train(samples, LONGER, actors=1, checkpointing=kept, progress=told.append)
    assert is_uninterrupted(found.state, samples, LONGER)
    assert [passed.iteration for passed in told] == [1, 2, 3, 4, 5, 6]
    assert [file.name for file in tmp_path.iterdir()] == ["kept"]


def test_a_checkpoint_of_another_run_is_refused_before_actors_are_started(tmp_path, monkeypatch):
    samples, kept = samples_of(city(), LONGER), Checkpointing(tmp_path / "kept", every=2)
    training.train(samples, LONGER, checkpointing=kept)
    monkeypatch.setattr(gathered, "ActorPool", None)
    with pytest.raises(StateError, match=messages.CHECKPOINT_OF_ANOTHER_RUN):
        train(samples, change(LONGER, seed=1), actors=2, checkpointing=kept)
    with pytest.raises(StateError, match=messages.checkpoint_past(6, wanted=5)):
        train(samples, change(LONGER, iterations=5), actors=2, checkpointing=kept)


# Refusals


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (SMALL_PAPER, messages.CLUSTER_RUNS_ROUNDS_ONLY),
        (change(SMALL_ROUNDS, stopping={"patience": 2}), messages.NO_EARLY_STOPPING_ON_A_CLUSTER),
    ],
    ids=["the paper's schedule", "early stopping"],
)
def test_what_the_cluster_does_not_carry_is_refused(settings, words):
    with pytest.raises(UsageError, match=words):
        train(samples_of(city(), settings), settings, actors=1)


@pytest.mark.long
def test_what_a_shard_refuses_reaches_the_driver_as_it_is():
    settings = change(SMALL_ROUNDS, ring={"bits": 32, "fraction_bits": 26})
    samples = samples_of(city(), settings)
    with pytest.raises(UsageError, match=messages.SUM_COULD_WRAP):
        in_actors(pieces_of(samples, cut(samples, 1)), settings)


def test_nodes_with_another_program_are_refused():
    told = [pool.versions(), {**pool.versions(), "numpy": "1.0"}]
    with pytest.raises(UsageError, match=messages.node_has_another("numpy", "1.0", here=pool.versions()["numpy"])):
        pool._refuse_other_programs(told)


@pytest.mark.long
def test_an_actor_made_anew_on_a_node_with_another_program_is_refused(monkeypatch):
    samples = samples_of(city(), SMALL_ROUNDS)
    made = in_actors(pieces_of(samples, cut(samples, 1)), SMALL_ROUNDS)
    try:
        import_ray().kill(made.actors[0])
        here = pool.versions()
        monkeypatch.setattr(pool, "versions", lambda: {**here, "numba": "0.1"})
        with pytest.raises(UsageError, match=messages.node_has_another("numba", here["numba"], here="0.1")):
            made.mend()
    finally:
        made.dismiss()


def test_an_actor_that_ran_out_of_memory_is_one_that_was_lost(three_actors):
    def too_much() -> None:
        raise import_ray().exceptions.OutOfMemoryError("the node ran low on memory")

    with pytest.raises(pool.ActorLostError):
        three_actors._get([import_ray().remote(max_retries=0)(too_much).remote()])


def test_ray_tells_its_makers_nothing():
    import_ray()
    from ray._common.usage import usage_lib

    assert not usage_lib.usage_stats_enabled()


@pytest.mark.long
def test_an_actor_that_dies_in_the_same_round_again_and_again_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("prirec.cluster.train.LOST_IN_A_ROW", 2)
    samples = samples_of(city(), LONGER)
    never = tmp_path / "nowhere" / "mark"  # cannot be made: the shard kills itself each time
    with pytest.raises(StateError, match=messages.ACTORS_LOST_REPEATEDLY):
        after_all(samples, LONGER, source=lambda shard, share: Dying(share, mark=never), shards=1)


class Dying(Doomed):
    """Ends in round 2, always."""

    def __init__(self, share, *, mark):
        super().__init__(share, at=2, mark=mark, kill=True)


@pytest.mark.long
def test_processors_that_others_have_taken_meanwhile_are_done_without(monkeypatch):
    """Two actors ask for a processor each, and somebody else has both: they are placed all the same."""
    monkeypatch.setattr(pool, "PLACED", 2.0)
    ray = import_ray()
    others = [ray.remote(num_cpus=1)(Idle).remote() for _ in range(2)]
    ray.get([other.here.remote() for other in others])
    samples = samples_of(city(), SMALL_ROUNDS)
    monkeypatch.setattr(ray, "available_resources", lambda: {"CPU": 2.0})
    state, _ = after_all(samples, SMALL_ROUNDS, source=lambda shard, share: GivenPeople(share))
    assert is_uninterrupted(state, samples, SMALL_ROUNDS)
    for other in others:
        ray.kill(other)


class Idle:
    """An actor of somebody else's."""

    def here(self) -> None:
        """Once this is answered it has its processor."""
