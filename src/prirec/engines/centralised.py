"""The baseline that collects everything: centralised FM, behind the same door as the engines."""

from prirec.engines.in_memory import everyone
from prirec.engines.randomness import iteration_key
from prirec.engines.state import Passed, State
from prirec.features.samples import Samples
from prirec.model.centralised import centralised_pass
from prirec.settings import Settings


class Centralised:
    """Everyone's raw data in one place, one linear model for all."""

    def __init__(self, samples: Samples, settings: Settings):
        self.samples, self.settings = samples, settings
        self.everyone, self.rows = everyone(samples)

    def advance(self, state: State) -> Passed:
        """One pass over all records."""
        samples = self.samples
        state.interaction, loss = centralised_pass(
            state.linear[0],
            state.interaction,
            self.everyone,
            samples.train.person,
            self.rows,
            key=iteration_key(self.settings.seed, "order", state.iteration),
            settings=self.settings,
        )
        state.iteration += 1
        people = int((samples.train.counts() > 0).sum())
        return Passed(iteration=state.iteration, loss=loss, took_part=people, in_sum=people)
