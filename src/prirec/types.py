"""Names for the arrays that packages hand to one another. Shapes are written beside the symbols that use them."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

RealArray: TypeAlias = NDArray[np.float64]
FeatureArray: TypeAlias = NDArray[np.float32]  # features at rest; every computation is in float64
IndexArray: TypeAlias = NDArray[np.int32]  # rows of people or places
OffsetArray: TypeAlias = NDArray[np.int64]  # where each person's records begin
LabelArray: TypeAlias = NDArray[np.int8]  # +1 visited or clicked, -1 ignored
TimeArray: TypeAlias = NDArray[np.int64]  # seconds since 1970, local wall clock
RingArray: TypeAlias = NDArray[np.uint64]  # elements of Z_2^64
KeyArray: TypeAlias = NDArray[np.uint64]  # one pseudorandom key a person
SignedArray: TypeAlias = NDArray[np.signedinteger]  # the ring, read as integers around 0
BoolArray: TypeAlias = NDArray[np.bool_]

DAY = 86_400  # seconds
