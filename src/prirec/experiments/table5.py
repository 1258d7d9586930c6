"""Table 5: AUC on Koubei."""

from prirec.experiments.accuracy import Accuracy, cells, conclude
from prirec.experiments.contest import Contest
from prirec.experiments.experiment import Experiment
from prirec.experiments.paper_figures import TABLE_5

_SHOWN = Accuracy(
    "Table 5: AUC on Koubei",
    (
        "Koubei's clicks are not public. trivago has the same kind of labels, a made-up city the same size, Yelp real "
        "geography; none of them is Koubei, and the paper's figures stand here to be seen, not to be reached.",
        "trivago: people and hotels with at least 5 impressions, then ignored hotels thinned to three a click within "
        "its session. Yelp: visits alone, with one negative each.",
    ),
    TABLE_5,
)
EXPERIMENT = Experiment("table5", _SHOWN.title, cells, Contest(), _SHOWN.show, conclude)
