"""Partitioned cities, prepared in parts in one process."""

from collections.abc import Sequence
from pathlib import Path

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.partition import partition_folder
from prirec.data.write_folder import write_folder
from prirec.simulate.partitioned import PartitionedCity, PartitionedSetup, PartitionedShard
from support.shards import InProcess


def partitioned(city: Dataset, folder: Path, *, parts: int = 5) -> Path:
    write_folder(city, folder / "city", table_format="parquet")
    partition_folder(folder / "city", folder / "parts", parts=parts)
    return folder / "parts"


def made_ready(
    folder: Path, settings: Settings, which: Sequence[Sequence[int]]
) -> tuple[list[PartitionedShard], PartitionedCity]:
    shards = [PartitionedShard(folder, some, settings) for some in which]
    return shards, PartitionedSetup(InProcess(shards), folder, settings).city()
