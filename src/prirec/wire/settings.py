"""The settings that a charter carries: what devices compute by, and nothing else, as typed fields in a fixed order.

Whatever else an operator chose, such as how features are planned, stands in the encoding or concerns nobody beside the
operator. So that there is one set of rules, devices check them as `Settings`, with the preset 'private' for the rest.
"""

from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from prirec.config import PRIVATE, Settings, budget_parts, check
from prirec.errors import PolicyError, UsageError
from prirec.protocols.messages import Natural, PerMille, WireStruct

MOST_HELD_OUT = 500  # in thousandths
Real = Annotated[float, Meta(ge=0, le=1e6)]  # which is never NaN


class CampaignSettings(WireStruct, frozen=True):
    """What docs/reference/settings.md says of the settings of these names."""

    iterations: Natural
    floor: Natural
    epsilon_per_user: Real
    delta: Real
    period_days: Natural  # 0: for life
    popularity: Real  # parts of the budget, of which only the ratio counts
    moments: Real
    interaction: Real
    quality: Real
    operators: Literal[1, 2]
    lost: PerMille
    corrupt: PerMille
    roster: Real
    ring_bits: Literal[32, 64]
    ratio: Natural
    negatives: Literal["uniform", "nearby"]
    only_earlier: bool  # data.split is 'time': a record is described without the visits that came after it
    own_left_out: bool
    held_out: PerMille  # share of the places of each person that nothing is learnt from: 1 - data.train_share

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """UsageError for settings that leave the budget, or its parts, open."""
        s, parts = settings, budget_parts(settings)
        if s.privacy.epsilon_per_user is None or s.privacy.interaction is None:
            raise UsageError("a charter names the parts of the budget, and a budget")
        return cls(
            s.iterations, s.floor,
            s.privacy.epsilon_per_user, s.privacy.delta, s.privacy.period_days or 0,
            parts["popularity"], parts["moments"], parts["interaction"], parts["quality"],
            s.sums.operators, round(1000 * s.sums.lost), round(1000 * s.sums.corrupt), s.sums.roster,  # type: ignore[arg-type]
            s.ring.bits,  # type: ignore[arg-type]  # 32 or 64 by its limit
            s.data.ratio, s.data.negatives, s.data.split == "time", s.features.own_left_out,
            round(1000 * (1 - s.data.train_share)) if parts["quality"] else 0,
        )  # fmt: skip

    def whole(self, averages: tuple[str, ...] = ()) -> Settings:
        """The settings that these stand for, with what the encoding says is averaged. UsageError or PolicyError for
        values that no settings may have."""
        if (self.held_out > 0) != (self.quality > 0) or self.held_out > MOST_HELD_OUT:
            raise PolicyError("held_out: places are held out for quality figures alone, and half of them at most")
        replace, base = msgspec.structs.replace, PRIVATE
        return check(
            replace(
                base,
                iterations=self.iterations,
                floor=self.floor,
                privacy=replace(
                    base.privacy, epsilon_per_user=self.epsilon_per_user, delta=self.delta,
                    period_days=self.period_days or None, popularity=self.popularity, moments=self.moments,
                    interaction=self.interaction, quality=self.quality,
                ),
                sums=replace(
                    base.sums, operators=self.operators, lost=self.lost / 1000, corrupt=self.corrupt / 1000,
                    roster=self.roster,
                ),
                ring=replace(base.ring, bits=self.ring_bits),
                data=replace(
                    base.data, ratio=self.ratio, negatives=self.negatives,
                    train_share=1 - self.held_out / 1000 if self.held_out else base.data.train_share,
                    split="time" if self.only_earlier else base.data.split,
                ),
                features=replace(base.features, own_left_out=self.own_left_out, averages=averages),
            )
        )  # fmt: skip
