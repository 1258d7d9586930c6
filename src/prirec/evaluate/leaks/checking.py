"""All checks of one set-up, in the order in which a reader would want to know.

Those that recompute are exact, at any size: copied records, moments, the order of time, homes, features, what devices
leave out, and counts that follow from the settings. Two rest on chance, with odds of a false alarm below one in a
million: whether negatives hit test visits as often as blind ones would (from 14 expected hits on, see negatives.py),
and whether counts that cannot be recomputed know the test visits (see evidence.py). That labels are anti-correlated by
the split is measured, and flagged where it is no chance (see split.py).
"""

from collections.abc import Collection

from prirec.errors import UsageError
from prirec.evaluate.experiment import Setup
from prirec.evaluate.leaks.counts import counts_that_saw_the_test, own_parts_that_saw_the_test, recount
from prirec.evaluate.leaks.findings import Findings
from prirec.evaluate.leaks.negatives import negatives_that_knew_the_test
from prirec.evaluate.leaks.people import features_of_the_test, homes_that_saw_the_test, tables_that_saw_the_test
from prirec.evaluate.leaks.records import copied_records, later_than_the_test, moments_of_the_test, repeated_records
from prirec.evaluate.leaks.split import moments_cut_in_two, rates_that_say_the_opposite


def check(setup: Setup, *, elsewhere: Collection[str] = ()) -> Findings:
    """What is unfair about testing on this set-up; nothing, if all is well.

    elsewhere: released columns that come from another source than these visits. Whether test visits are in them cannot
    be recomputed, so a suspicion is flagged where it would be refused.
    """
    prepared, recounted = setup.prepared, recount(setup.prepared, setup.settings)
    return (
        *copied_records(prepared),
        *later_than_the_test(prepared, setup.settings),
        *negatives_that_knew_the_test(prepared, setup.settings),
        *moments_of_the_test(prepared),
        *counts_that_saw_the_test(setup, recounted, elsewhere=elsewhere),
        *own_parts_that_saw_the_test(setup, recounted),
        *homes_that_saw_the_test(setup),
        *features_of_the_test(setup),
        *tables_that_saw_the_test(prepared),
        *repeated_records(prepared),
        *rates_that_say_the_opposite(prepared),
        *moments_cut_in_two(prepared),
    )


def refuse(findings: Findings) -> None:
    """UsageError that tells everything for which this evaluation is refused; what is only flagged passes."""
    refused = [one for one in findings if one.severity == "refused"]
    if refused:
        told = "; ".join(f"{one.name}: {one.words}" for one in refused)
        raise UsageError(f"this evaluation would learn from what it is tested on. {told}")
