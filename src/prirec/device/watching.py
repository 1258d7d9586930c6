"""What an agent has done since somebody last looked, a sentence each: for a log that anybody may read. They say what
the recommender knows as well, and nothing about the person."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from prirec.device.agent import Agent
from prirec.device.contributing import WHAT
from prirec.errors import PrirecError
from prirec.protocols.actions import Stage

RECENT = 16  # rounds of the journal that are looked at
WORDS = {
    Stage.ENTERED: "came to a sum",
    Stage.MASKED: "added to a sum, masked and with noise, and paid for it",
    Stage.AGREED: "agreed on who is in a sum",
    Stage.REVEALED: "helped to open a sum",
    Stage.OPENED: "a sum is open",
    Stage.BURNT: "gave up a sum",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """All that is compared."""

    enrolled: bool
    entries: int
    standing: Mapping[str, bytes]
    stages: Mapping[tuple[str, int], Stage]
    declined: PrirecError | None
    hindered: str  # why it waits: the recommender is away, or refuses it, or the disk is full

    @classmethod
    def of(cls, agent: Agent) -> Self:
        member = agent.view.member
        with agent.person.store.reading() as rows:
            found = rows.execute(
                "SELECT kind, number, stage FROM rounds WHERE deployment = ? ORDER BY number DESC LIMIT ?",
                (member.deployment, RECENT),
            ).fetchall()
        return cls(
            enrolled=member.enrolled,
            entries=member.head.length,
            standing=dict(agent.view.standing),
            stages={(kind, number): Stage(stage) for kind, number, stage in found},
            declined=agent.rounds.declined,
            hindered="" if agent.problem is None else str(agent.problem),
        )


class Watch:
    """Over one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self._seen = agent, Seen.of(agent)

    def news(self) -> list[str]:
        before, self._seen = self._seen, Seen.of(self._agent)
        return [*_reached(before, self._seen), *self._followed(before), *self._rounds(before)]

    def _followed(self, before: Seen) -> Iterator[str]:
        now, view = self._seen, self._agent.view
        if now.entries > before.entries:
            yield f"read the log up to entry {now.entries}"
        if now.standing.get("charter") != before.standing.get("charter"):
            yield f"a campaign has begun {'without' if view.position is None else 'with'} this device"
        if now.standing.get("publication") != before.standing.get("publication"):
            yield "a new model is here to recommend with"

    def _rounds(self, before: Seen) -> Iterator[str]:
        now = self._seen
        for at, stage in sorted(now.stages.items(), key=lambda one: one[0][1]):
            if before.stages.get(at) is not stage:
                yield f"{WORDS[stage]}: {WHAT.get(at[0], at[0])}"
        if now.declined is not None and now.declined is not before.declined:
            yield f"stayed out of a sum, or left it: {now.declined}"


def _reached(before: Seen, now: Seen) -> Iterator[str]:
    if now.hindered and now.hindered != before.hindered:
        yield f"trying again from time to time: {now.hindered}"
    if before.hindered and not now.hindered:
        yield "the recommender answers again"
    if now.enrolled and not before.enrolled:
        yield "enrolled"
