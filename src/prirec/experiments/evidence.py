"""The scores behind a cell's figures: what intervals on differences are made of. Kept beside results, never published:
a row is a person's test record."""

import io
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.features.samples import Samples
from prirec.types import IndexArray, LabelArray, RealArray


@dataclass(frozen=True, slots=True)
class Evidence:
    """Test records of one model. People stand in the order of their ids, which repeats of a cell share."""

    label: LabelArray = field(repr=False)  # (R,)
    person: IndexArray = field(repr=False)  # (R,)
    scores: RealArray = field(repr=False)  # (R,)
    people: int

    @classmethod
    def of(cls, samples: Samples, scores: RealArray) -> Self:
        rank = np.empty(len(samples.ids), dtype=np.int32)
        rank[np.argsort(np.array(samples.ids, dtype=object), kind="stable")] = np.arange(len(rank), dtype=np.int32)
        return cls(samples.test.label, rank[samples.test.person], scores, len(rank))

    def to_bytes(self) -> bytes:
        out = io.BytesIO()
        np.savez_compressed(
            out, label=self.label, person=self.person, scores=self.scores, people=self.people
        )  # fmt: skip
        return out.getvalue()

    @classmethod
    def from_bytes(cls, body: bytes) -> Self:
        """One of damage.NOT_ARRAYS for what is none."""
        with np.load(io.BytesIO(body), allow_pickle=False) as held:
            return cls(held["label"], held["person"], held["scores"], int(held["people"]))
