"""What a device lets itself be asked, whoever signed it: sizes that it can hold, and as many rounds as were announced.

The bounds are wide of everything that an honest recommender publishes. They are no part of the promise to people, which
holds without them (device/contributing.py): they keep a device from being worn out, and from adding nothing by chance.
"""

from typing import Final

import numpy as np

from prirec.contract.documents import Charter, Edition
from prirec.contract.wire import MOST_OCTETS
from prirec.errors import PolicyError
from prirec.features.blocks import LARGEST as LARGEST  # of a feature, and of an entry of V or of a mean
from prirec.features.encoding import Encoding
from prirec.settings import Settings

COUNTED: Final = 1e9  # the most of a count: as many people as there may be in one place
MOST_ATTEMPTS: Final = 5  # at one sum
MOST_CAMPAIGNS: Final = 2**15  # of a deployment: the numbers of their rounds stay below 2^31
MOST_FEATURES: Final = 65_536
MOST_RATIO: Final = 20  # negatives that a device draws for each visit, and works through in every round
_WORD: Final = 8  # bytes of an entry of a vector
_ROOM: Final = MOST_OCTETS - 2**16  # of a request: the rest is for what stands around a vector


def refuse_unsound(charter: Charter, edition: Edition | None, settings: Settings, encoding: Encoding) -> None:
    """PolicyError for a campaign that no device should be asked to take part in. `encoding` is the edition's, or the
    charter's where there is no edition yet; it is looked at before anything is made of it."""
    wide = encoding.width(encoding.blocks())
    wrong = {
        f"campaign: a deployment has at most {MOST_CAMPAIGNS} of them": charter.campaign >= MOST_CAMPAIGNS,
        f"encoding: there are at most {MOST_FEATURES} features": wide > MOST_FEATURES,
        "places: a vector of visits would not fit into a message": charter.places * _WORD > _ROOM,
        "model.dimension: V would not fit into a message": wide * settings.model.dimension * _WORD > _ROOM,
        f"data.ratio: a device draws at most {MOST_RATIO} negatives for a visit": settings.data.ratio > MOST_RATIO,
        "cohorts: there are more of them than people": edition is not None and edition.cohorts > max(charter.many, 1),
    }
    for problem, is_so in wrong.items():
        if is_so:
            raise PolicyError(f"no device can be asked to follow this campaign ({problem})")


def is_within(values: np.ndarray, most: float = LARGEST) -> bool:
    """Whether every entry is a number from -most to most."""
    return bool((np.abs(values) <= most).all())  # false for NaN as well
