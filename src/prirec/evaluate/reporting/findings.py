"""The parts of the report that say which model is how good, and how it learnt."""

import math
from collections.abc import Sequence

from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting import plots
from prirec.evaluate.reporting.page import figure, grid, number, paragraph, section
from prirec.evaluate.reporting.table import comparison_table
from prirec.evaluate.spread import Scored, auc_with_error, crowd_of, line_of, sure_difference


def comparison(entries: Sequence[Entry], scored: Sequence[Scored]) -> str:
    """The table, and the same figures as dots with their uncertainty."""
    pairs = list(zip(entries, scored, strict=True))
    everyone = [_dot(entry, entry.outcome.quality.auc, auc_with_error(one)[1]) for entry, one in pairs]
    few = [_dot(entry, entry.outcome.quality.auc_few, _error_of_few(entry, one)) for entry, one in pairs]
    limits = plots.limits_of([*everyone, *few])
    tested = max(entry.outcome.quality.records for entry in entries)
    return section(
        "comparison",
        "How good are they?",
        in_short(entries, scored),
        comparison_table(entries),
        paragraph(
            f"★ best of its column. All figures are on {tested:,} test records that no model has seen. AUC: how often "
            "a place that was visited scores above one that was not. GAUC: the same within each person, averaged. "
            "Fewest records: the quarter of people with the fewest training records. Seconds: preparing, training and "
            "testing, on this machine.",
            kind="quiet",
        ),
        grid(
            [
                figure(plots.dots(everyone, label="AUC of each model, everyone", limits=limits), "AUC, everyone"),
                figure(
                    plots.dots(few, label="AUC of each model, people with the fewest records", limits=limits),
                    "AUC, people with the fewest records",
                ),
            ],
            kind="two",
        ),
        paragraph(
            "Whiskers are 95 % intervals (DeLong), which take records as independent; where they overlap widely, the "
            "order of the models may be chance.",
            kind="quiet",
        ),
    )


def in_short(entries: Sequence[Entry], scored: Sequence[Scored]) -> str:
    """The best model that collects everything, beside the best that does not; nothing unless there are both."""
    quality = [entry.outcome.quality.auc for entry in entries]
    known = [at for at, auc in enumerate(quality) if math.isfinite(auc)]
    central = [at for at in known if entries[at].contender.settings.schedule == "centralised"]
    apart = [at for at in known if entries[at].contender.settings.schedule != "centralised"]
    if not central or not apart:
        return ""
    theirs, ours = (max(group, key=quality.__getitem__) for group in (central, apart))
    chance = "" if sure_difference(scored[ours], scored[theirs]) else " The difference may be chance."
    return paragraph(
        f"AUC {number(quality[ours])} without collecting profiles and records ({entries[ours].contender.name}); "
        f"{number(quality[theirs])} with all of them collected ({entries[theirs].contender.name}).{chance}"
        + "".join(_within_budget(entries[at], quality[at]) for at in apart if at != ours),
        kind="short",
    )


def _within_budget(entry: Entry, auc: float) -> str:
    epsilon = entry.contender.settings.privacy.epsilon_per_user
    return (
        "" if epsilon is None else f" Within ε = {epsilon:g} for each person: {number(auc)} ({entry.contender.name})."
    )


def learning(entries: Sequence[Entry]) -> str:
    """Training curves, one plot a model."""
    limits = plots.loss_limits(entries)
    drawn = [figure(plots.curve(e, at=at, limits=limits), e.contender.name) for at, e in enumerate(entries)]
    watched = any(p.held_out_loss is not None for entry in entries for p in entry.outcome.trained.history)
    return section(
        "learning",
        "How they learnt",
        paragraph(
            "The mean training loss before each step. The dotted line is a model that knows nothing, ln\u00a02. Rounds "
            "and passes are different units: in a round everyone learns on their own device and V moves once; in a "
            "pass V moves with every record or batch. Compare where curves end, not how fast they fall."
            + (" Dashed: the loss on records held out to decide when to stop." if watched else "")
        ),
        grid(drawn, kind="three"),
    )


def _dot(entry: Entry, value: float, error: float) -> plots.Dot:
    return plots.Dot(entry.contender.name, value, error)


def _error_of_few(entry: Entry, scored: Scored) -> float:
    """The first of four groups is the quarter that auc_few is about."""
    crowd = crowd_of(entry.outcome.setup.samples, groups=4)
    line = line_of(crowd, scored) if len(crowd) else None
    return math.nan if line is None else float(line.error[0])
