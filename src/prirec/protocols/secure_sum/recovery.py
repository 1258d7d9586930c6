"""How the collector takes off the pads that do not cancel: own masks of survivors, and edges to those who were lost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import bitmap
from prirec.protocols.meeting import Meeting
from prirec.protocols.messages import Listed, Revealed, Share
from prirec.protocols.party import FatalError
from prirec.protocols.secure_sum import masking
from prirec.sharing import shamir
from prirec.sharing.keys import AgreementKey
from prirec.types import RingArray


@dataclass(frozen=True, slots=True)
class Recovery:
    """Secrets from shares. A secret that does not come out as committed to ends the round: never a wrong sum."""

    meeting: Meeting
    roster: Sequence[Listed]
    near: Sequence[frozenset[int]]
    sharing: frozenset[int]
    survivors: frozenset[int]

    def without_pads(
        self, total: RingArray, reveals: Mapping[int, Revealed], commitments: Mapping[int, bytes]
    ) -> RingArray:
        """The sum of the survivors' vectors, less every pad that has not cancelled."""
        seeds, keys = self.seeds(reveals, commitments), self.mask_keys(reveals)
        added = chain(self.own_pads(seeds), self.edge_pads(keys, of_lower=True))
        return masking.lay_on(total, added=self.edge_pads(keys, of_lower=False), taken=added)

    def seeds(self, reveals: Mapping[int, Revealed], commitments: Mapping[int, bytes]) -> dict[int, bytes]:
        """b_u of each survivor."""
        given = _gathered({at: one.seeds for at, one in reveals.items()})
        seeds = {at: self._combined(given.get(at, [])) for at in sorted(self.survivors)}
        for at, seed in seeds.items():
            if masking.commitment(seed, self.meeting, name=self.roster[at].name) != commitments[at]:
                raise _unfit()
        return seeds

    def mask_keys(self, reveals: Mapping[int, Revealed]) -> dict[int, AgreementKey]:
        """The mask key of each that was lost after its boxes were delivered."""
        given = _gathered({at: one.mask_keys for at, one in reveals.items()})
        lost = sorted(at for at in self.sharing - self.survivors if self.near[at] & self.survivors)
        keys = {at: AgreementKey(self._combined(given.get(at, []))) for at in lost}
        if any(key.public != self.roster[at].mask_key for at, key in keys.items()):
            raise _unfit()
        return keys

    def own_pads(self, seeds: Mapping[int, bytes]) -> Iterator[RingArray]:
        for at, seed in seeds.items():
            yield masking.own_pad(seed, self.meeting, name=self.roster[at].name)

    def edge_pads(self, keys: Mapping[int, AgreementKey], *, of_lower: bool) -> Iterator[RingArray]:
        """The pads between the lost and survivors: those that survivors added, as the lower of the two, or took off."""
        sharing = bitmap(self.sharing, size=len(self.roster))
        for lost, key in keys.items():
            for at in sorted(self.near[lost] & self.survivors):
                if (at < lost) is of_lower:
                    low, high = self.roster[min(at, lost)].name, self.roster[max(at, lost)].name
                    agreed = key.agree(self.roster[at].mask_key)
                    yield masking.pairwise_pad(agreed, self.meeting, sharing=sharing, low=low, high=high)

    def _combined(self, shares: list[tuple[int, bytes]]) -> bytes:
        t = self.meeting.graph.threshold
        if len(shares) < t:
            raise FatalError(Fault.ABORTED, "too few shares of a secret were given out; the sum stays closed")
        points = np.array([at for at, _ in shares[:t]], dtype=np.int64) + 1
        rows = np.frombuffer(b"".join(share for _, share in shares[:t]), dtype="<u4").reshape(t, -1)
        try:
            return shamir.combine(points, rows)
        except PeerError:
            raise _unfit() from None


def _gathered(given: Mapping[int, Iterable[Share]]) -> dict[int, list[tuple[int, bytes]]]:
    """From what each holder gave, by whose secret it is a share of."""
    gathered: dict[int, list[tuple[int, bytes]]] = {}
    for holder in sorted(given):
        for share in given[holder]:
            gathered.setdefault(share.position, []).append((holder, share.share))
    return gathered


def _unfit() -> FatalError:
    return FatalError(Fault.ABORTED, "shares that were given out do not fit together; the sum stays closed")
