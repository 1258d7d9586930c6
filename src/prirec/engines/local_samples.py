"""The paper's schedule on one machine, fast: the same bits as engines/plain.py."""

from math import isnan

import numpy as np

from prirec.engines.circles import circle
from prirec.engines.codes import codes
from prirec.engines.laid_out import laid_out
from prirec.engines.ordering import sample_order
from prirec.engines.participation import standing
from prirec.engines.randomness import iteration_key
from prirec.engines.state import Passed, State
from prirec.features.samples import Samples
from prirec.model.sample_pass import Circle, Descent, Reached, Scratch, sample_pass
from prirec.model.table import Table, narrow, table
from prirec.settings import Settings
from prirec.sharing.fixed_point import outside
from prirec.types import RealArray


class Samplewise:
    """Algorithm 2 in one kernel. A sample needs the models that the one before it moved, so there is one thread."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.codes = codes(samples, settings)
        self.narrow = narrow(self.codes.linear.ring)  # None once a model did not fit
        self.city = laid_out(samples)
        self.circle: Circle | None = None

    def advance(self, state: State) -> Passed:
        samples, settings = self.samples, self.settings
        online = standing(samples.keys, state.iteration, settings).present
        around = self.around(state.iteration, online)
        order = sample_order(samples, settings, iteration=state.iteration, online=online)
        losses = self.run_pass(state, around, order)
        state.iteration += 1
        people = np.flatnonzero(online & (samples.train.counts() > 0))
        alone = 0 if around.fresh else int((np.diff(around.offsets)[people] == 0).sum())
        return Passed(
            iteration=state.iteration,
            loss=losses / max(len(order), 1),
            took_part=len(people),
            in_sum=len(people),
            alone=alone,
        )

    def around(self, iteration: int, online: np.ndarray) -> Circle:
        """The circle of this pass; kept when nothing about it can change."""
        settled = self.settings.participation.online == 1.0 and self.settings.neighbours.among is None
        if self.circle is None or not settled:
            self.circle = circle(self.samples, self.settings, iteration=iteration, online=online)
        return self.circle

    def run_pass(self, state: State, around: Circle, order: np.ndarray) -> float:
        """The narrow ring as far as it goes, then the wide one: the same sums. Returns the summed loss."""
        T, room, uniform = (
            np.ascontiguousarray(state.interaction.T),
            self.scratch(around.fresh),
            len(around.weights) == 0,
        )
        reached = Reached(samples=0, losses=0.0, fine=True)
        for code in (self.narrow if uniform else None, self.codes.linear.ring):
            if code is None:
                continue
            models = table(state.linear if uniform else state.linear[:0], code)
            reached = reached._replace(fine=models is not None)
            if models is not None:
                reached = self.walk(state, T, models, around=around, order=order, reached=reached, room=room)
            if reached.fine or isnan(reached.losses):
                break
            self.narrow = None
        if not reached.fine or isnan(reached.losses):
            raise outside(self.codes.linear.ring.bound)
        state.interaction = np.ascontiguousarray(T.T)
        return reached.losses

    def walk(
        self, state: State, T: RealArray, models: Table, *,
        around: Circle, order: np.ndarray, reached: Reached, room: Scratch,
    ) -> Reached:  # fmt: skip
        s = self.settings
        rates = Descent(
            s.linear.alpha, s.interaction.alpha, s.model.lambda_w, s.model.lambda_v, s.linear.gamma, s.interaction.batch
        )
        return sample_pass(
            state.linear, models, T, self.city.everyone, self.samples.train.person, self.city.rows, around, order,
            reached, iteration_key(s.seed, "neighbours", state.iteration), rates, self.codes.interaction.encoder, room,
        )  # fmt: skip

    def scratch(self, drawn: int) -> Scratch:
        D, K = self.samples.features, self.settings.model.dimension
        pending = self.codes.interaction.ring.zeros(K * D)
        return Scratch(
            x=np.empty(D),
            present=np.empty(D + 1, dtype=np.int32),
            pull=np.empty(K),
            gradient=np.empty(D + 1),
            weighted=np.empty(D + 1),
            drawn=np.empty(drawn, dtype=np.int32),
            pending=pending,
            pending_signed=self.codes.interaction.ring.signed(pending),
        )
