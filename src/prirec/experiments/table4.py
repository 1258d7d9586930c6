"""Table 4: AUC on Foursquare."""

from prirec.experiments.accuracy import Accuracy, cells, conclude
from prirec.experiments.contest import Contest
from prirec.experiments.experiment import Experiment
from prirec.experiments.paper_figures import TABLE_4

_SHOWN = Accuracy(
    "Table 4: AUC on Foursquare",
    (
        "The paper's Foursquare set has 11,824 people, 13,924 places and 924,474 records with negatives; it is "
        "published by its author and is not at hand. What stands for it is said below each table.",
        "PriRec- falls below 0.5 because of the split, not because of its features: with one negative for each visit "
        "and a random split by record, who has many visits in training has few left for the test (decisions/0009).",
        "The paper's PriRec fits reports by those only who have a record for a place; who reports then tells who was "
        "there. With reports by everyone, as Eq. (6) prints it, popularity drowns in noise.",
    ),
    TABLE_4,
)
EXPERIMENT = Experiment("table4", _SHOWN.title, cells, Contest(), _SHOWN.show, conclude)
