"""The rules of a round's life: on examples, on every state that a small world can reach, and on long random lives."""

from itertools import product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from prirec.errors import StateError
from prirec.protocols.journal import LIFE, ConflictError, JournalEntry, Verdict, admit, entry
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from support import messages

OVER = (Stage.OPENED, Stage.BURNT)
ONE, OTHER = b"\1" * 32, b"\2" * 32


def of(number: int = 5, *, attempt: int = 0, group: int = 0, kind: str = "linear") -> Round:
    return Round(bytes(16), kind, number, group, attempt)


FIVE = of()


def at(stage: Stage, *, of: Round = FIVE, masked: bool = False) -> JournalEntry:
    return JournalEntry(of, stage, ONE, b"", masked)


class Journal:
    """A journal in memory, which burns on a conflict as the rules ask of whoever keeps one."""

    def __init__(self) -> None:
        self.held: dict[tuple[bytes, str, int], JournalEntry] = {}
        self.written: list[Persist] = []

    def write(self, wanted: Persist) -> Verdict:
        where = (wanted.round.deployment, wanted.round.kind, wanted.round.number)
        last = max((number for *kind, number in self.held if tuple(kind) == where[:2]), default=None)
        try:
            verdict = admit(wanted, held=self.held.get(where), last=last)
        except ConflictError as conflict:
            if Stage.BURNT in LIFE[self.held[where].stage]:
                self.write(Persist(conflict.round, Stage.BURNT, bytes(32)))
            raise
        if verdict is Verdict.WRITE:
            self.held[where] = entry(wanted, held=self.held.get(where))
            self.written.append(wanted)
        return verdict


def test_every_stage_has_a_life_and_it_only_rises() -> None:
    assert set(LIFE) == set(Stage)
    assert all(later > stage for stage, following in LIFE.items() for later in following)


def test_no_stage_follows_the_last_and_every_other_can_be_burnt() -> None:
    assert [stage for stage, following in LIFE.items() if not following] == list(OVER)
    assert all(Stage.BURNT in following for stage, following in LIFE.items() if stage not in OVER)


@pytest.mark.parametrize(
    "life",
    [
        pytest.param((Stage.MASKED, Stage.AGREED, Stage.REVEALED), id="member"),
        pytest.param((Stage.MASKED,), id="member under pads, neighbour in Algorithm 1"),
        pytest.param((Stage.AGREED, Stage.OPENED), id="collector"),
        pytest.param((Stage.OPENED,), id="collector under pads, receiver in Algorithm 1"),
    ],
)
def test_each_party_can_live_its_round(life: tuple[Stage, ...]) -> None:
    journal = Journal()
    for stage in (Stage.ENTERED, *life):
        assert journal.write(Persist(of(), stage, ONE)) is Verdict.WRITE


def test_the_first_round_may_have_any_number() -> None:
    assert admit(Persist(of(0), Stage.ENTERED, ONE), held=None, last=None) is Verdict.WRITE
    assert admit(Persist(of(7), Stage.ENTERED, ONE), held=None, last=6) is Verdict.WRITE


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENTERED])
def test_a_round_that_was_never_entered_goes_nowhere(stage: Stage) -> None:
    with pytest.raises(StateError, match=messages.ROUND_NEVER_ENTERED):
        admit(Persist(of(), stage, ONE), held=None, last=None)
    with pytest.raises(StateError, match=messages.ROUND_NEVER_ENTERED):
        admit(Persist(of(attempt=0), stage, ONE), held=at(Stage.ENTERED, of=of(attempt=1)), last=5)


def test_a_number_is_not_gone_back_to() -> None:
    with pytest.raises(StateError, match=messages.round_not_after(5, 5)):
        admit(Persist(of(5), Stage.ENTERED, ONE), held=None, last=5)
    with pytest.raises(StateError, match=messages.round_not_begun_anew_after(6)):
        admit(Persist(of(5, attempt=1), Stage.ENTERED, ONE), held=at(Stage.BURNT), last=6)


def test_a_round_entered_earlier_goes_on_beside_a_later_one() -> None:
    assert admit(Persist(of(5), Stage.MASKED, ONE), held=at(Stage.ENTERED), last=6) is Verdict.WRITE


@pytest.mark.parametrize("stage", [Stage.ENTERED, Stage.BURNT])
def test_a_new_attempt_is_possible_while_nothing_was_masked(stage: Stage) -> None:
    assert admit(Persist(of(attempt=1), Stage.ENTERED, OTHER), held=at(stage), last=5) is Verdict.WRITE


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.ENTERED])
def test_no_attempt_follows_a_masked_vector(stage: Stage) -> None:
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        admit(Persist(of(attempt=1), Stage.ENTERED, ONE), held=at(stage, masked=True), last=5)


@pytest.mark.parametrize("life", [(Stage.AGREED,), (Stage.AGREED, Stage.BURNT), (Stage.OPENED,)])
def test_a_collector_does_not_try_a_number_again_whose_sum_may_be_open(life: tuple[Stage, ...]) -> None:
    journal = Journal()
    for stage in (Stage.ENTERED, *life):
        journal.write(Persist(of(), stage, ONE))
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        journal.write(Persist(of(attempt=1), Stage.ENTERED, ONE))


@pytest.mark.parametrize("again", [of(attempt=0), of(attempt=1, group=9)])
def test_an_attempt_has_a_higher_number_whatever_the_cohort(again: Round) -> None:
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        admit(Persist(again, Stage.ENTERED, ONE), held=at(Stage.ENTERED, of=of(attempt=1)), last=5)


@pytest.mark.parametrize("stage", list(Stage))
def test_writing_a_stage_again_changes_nothing(stage: Stage) -> None:
    assert admit(Persist(of(), stage, ONE), held=at(stage), last=5) is Verdict.KNOWN


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage is not Stage.BURNT])
def test_a_stage_settled_in_another_way_is_a_conflict(stage: Stage) -> None:
    with pytest.raises(ConflictError, match=messages.settled_otherwise(f"its stage {stage.name}")) as caught:
        admit(Persist(of(), stage, OTHER), held=at(stage), last=5)
    assert caught.value.round == of()
    assert caught.value.exit_code == 5


def test_given_up_twice_is_given_up_whatever_the_reason() -> None:
    assert admit(Persist(of(), Stage.BURNT, OTHER), held=at(Stage.BURNT), last=5) is Verdict.KNOWN


@pytest.mark.parametrize(("held", "wanted"), [(h, w) for h, w in product(Stage, Stage) if w != h and w not in LIFE[h]])
def test_any_other_step_is_refused_without_a_conflict(held: Stage, wanted: Stage) -> None:
    with pytest.raises(StateError, match=messages.stage_does_not_follow(held.name, wanted.name)) as caught:
        admit(Persist(of(), wanted, ONE), held=at(held), last=5)
    assert not isinstance(caught.value, ConflictError)


def test_a_vector_is_kept_until_the_survivors_are_settled() -> None:
    masked = entry(Persist(of(), Stage.MASKED, ONE, b"vector"), held=at(Stage.ENTERED))
    assert (masked.payload, masked.masked) == (b"vector", True)
    for stage in (Stage.AGREED, *OVER):
        later = entry(Persist(of(), stage, OTHER), held=masked)
        assert (later.stage, later.digest, later.payload, later.masked) == (stage, OTHER, b"", True)


def test_a_new_attempt_takes_nothing_over_from_the_one_before() -> None:
    before = JournalEntry(of(), Stage.ENTERED, ONE, b"of the first attempt")
    assert entry(Persist(of(attempt=1), Stage.ENTERED, OTHER), held=before) == JournalEntry(
        of(attempt=1), Stage.ENTERED, OTHER
    )


def test_an_entry_does_not_print_its_payload() -> None:
    assert "vector" not in repr(entry(Persist(of(), Stage.ENTERED, ONE, b"vector"), held=None))


def test_no_life_in_a_small_world_masks_a_number_twice() -> None:
    """All of them: two numbers, two digests, a second attempt or cohort; what was masked is remembered beside."""
    rounds = [of(n, attempt=a, group=g) for n, (a, g) in product((1, 2), ((0, 0), (1, 0), (0, 1)))]
    wishes = [Persist(round_, stage, digest) for round_, stage, digest in product(rounds, Stage, (ONE, OTHER))]
    State = tuple[
        JournalEntry | None, JournalEntry | None, Persist | None, Persist | None
    ]  # held and masked, of each number
    start: State = (None, None, None, None)
    seen, new = {start}, [start]
    while new:
        state = new.pop()
        last = 2 if state[1] is not None else 1 if state[0] is not None else None
        for wanted in wishes:
            where = wanted.round.number - 1
            held, masked = state[where], state[where + 2]
            try:
                if admit(wanted, held=held, last=last) is Verdict.KNOWN:
                    continue
            except StateError:
                continue
            assert held is None or held.round != wanted.round or held.stage not in OVER
            assert held is not None or where == 1 or state[1] is None
            assert masked is None or (wanted.round == masked.round and wanted.stage is not Stage.MASKED)
            following = list(state)
            following[where] = entry(wanted, held=held)
            following[where + 2] = wanted if wanted.stage is Stage.MASKED else masked
            if (after := tuple(following)) not in seen:
                seen.add(after)
                new.append(after)
    assert len(seen) > 1000


class Lives(RuleBasedStateMachine):
    """Whatever is asked for, in whatever order, from several kinds of rounds at once."""

    rounds = st.builds(
        Round,
        deployment=st.sampled_from([bytes(16), b"\1" * 16]),
        kind=st.sampled_from(["linear", "interaction"]),
        number=st.integers(0, 3),
        group=st.integers(0, 1),
        attempt=st.integers(0, 2),
    )
    digests = st.sampled_from([ONE, OTHER])

    def __init__(self) -> None:
        super().__init__()
        self.journal = Journal()

    def ask(self, wanted: Persist) -> None:
        before = dict(self.journal.held)
        try:
            verdict = self.journal.write(wanted)
        except ConflictError:
            assert self.journal.held[where(wanted.round)].stage in OVER
        except StateError:
            assert self.journal.held == before
        else:
            assert (verdict is Verdict.KNOWN) == (self.journal.held == before)

    @rule(of=rounds, stage=st.sampled_from(Stage), digest=digests)
    def ask_for_anything(self, of: Round, stage: Stage, digest: bytes) -> None:
        self.ask(Persist(of, stage, digest))

    @rule(of=rounds, digest=digests)
    def enter(self, of: Round, digest: bytes) -> None:
        self.ask(Persist(of, Stage.ENTERED, digest))

    @precondition(lambda self: self.journal.held)
    @rule(data=st.data(), digest=digests)
    def go_on(self, data: st.DataObject, digest: bytes) -> None:
        held = data.draw(st.sampled_from(sorted(self.journal.held.values(), key=repr)))
        stage = data.draw(st.sampled_from((held.stage, *LIFE[held.stage])))
        self.ask(Persist(held.round, stage, digest))

    @invariant()
    def a_number_takes_one_vector(self) -> None:
        masked = [where(one.round) for one in self.journal.written if one.stage is Stage.MASKED]
        assert len(masked) == len(set(masked))

    @invariant()
    def numbers_only_rise(self) -> None:
        entered: dict[tuple[bytes, str], tuple[int, int]] = {}
        for one in self.journal.written:
            if one.stage is Stage.ENTERED:
                kind, now = (one.round.deployment, one.round.kind), (one.round.number, one.round.attempt)
                assert now > entered.get(kind, (-1, 0))
                entered[kind] = now

    @invariant()
    def stages_only_rise_and_end(self) -> None:
        stages: dict[Round, Stage] = {}
        for one in self.journal.written:
            before = stages.get(one.round)
            assert one.stage is Stage.ENTERED if before is None else one.stage in LIFE[before]
            stages[one.round] = one.stage

    @invariant()
    def only_the_last_attempt_at_a_number_goes_on(self) -> None:
        attempts: dict[tuple[bytes, str, int], int] = {}
        for one in self.journal.written:
            assert one.round.attempt >= attempts.get(where(one.round), 0)
            attempts[where(one.round)] = one.round.attempt


def where(of: Round) -> tuple[bytes, str, int]:
    return of.deployment, of.kind, of.number


Lives.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestLives = Lives.TestCase
