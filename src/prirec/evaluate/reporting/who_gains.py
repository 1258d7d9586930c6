"""The part of the report that says who gains: people with few records, or people with many."""

from collections.abc import Sequence

import numpy as np

from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting import plots
from prirec.evaluate.reporting.drawing import colour, shape
from prirec.evaluate.reporting.page import figure, grid, paragraph, section, text
from prirec.evaluate.spread import SURE, Line, Scored, crowd_of, gain_of, line_of

# The shapes of plots.marker, for a legend: 12 by 12, in the order of drawing.MARKERS.
_SHAPES = (
    "M6 2a4 4 0 1 0 .01 0z", "M2.5 2.5h7v7h-7z", "M6 2l4 8H2z", "M6 1l5 5-5 5-5-5z", "M6 10L2 2h8z",
    "M4.5 2h3v2.5h2.5v3H7.5V10h-3V7.5H2v-3h2.5z", "M2 4l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",
    "M6 1.5l4.5 3.3-1.7 5.2H3.2L1.5 4.8z",
)  # fmt: skip


def by_records(entries: Sequence[Entry], scored: Sequence[Scored]) -> str:
    """Who gains: the AUC of people with few and with many training records."""
    crowd = crowd_of(entries[0].outcome.setup.samples)
    if not len(crowd):
        return ""
    lines = [line_of(crowd, one) for one in scored]
    drawn = [figure(plots.by_records(crowd, lines), "AUC by how many training records a person has")]
    base = _reference(entries)
    gains: list[Line | None] = [
        None if at == base else gain_of(crowd, one, scored[base]) for at, one in enumerate(scored)
    ]
    if any(gain is not None for gain in gains):
        name = entries[base].contender.name
        drawn.append(figure(plots.gains(crowd, gains, reference=name), f"Difference from {name}"))
    return section(
        "who-gains",
        "Who gains?",
        paragraph(
            f"People in {len(crowd)} groups, from few training records to many, with {min(crowd.people):,} to "
            f"{max(crowd.people):,} people each. {_how_sure(lines)}Whiskers are 95 % intervals of the difference."
        ),
        _legend(entries),
        grid(drawn, kind="two"),
    )


def _how_sure(lines: Sequence[Line | None]) -> str:
    errors = np.concatenate([np.empty(0), *(line.error for line in lines if line is not None)])
    errors = errors[np.isfinite(errors)]
    return f"The AUC of a group is uncertain by about ±{SURE * float(np.median(errors)):.2f}. " if len(errors) else ""


def _reference(entries: Sequence[Entry]) -> int:
    """The model that others are held against: a centralised one if there is any, else the first."""
    central = [at for at, entry in enumerate(entries) if entry.contender.settings.schedule == "centralised"]
    return central[0] if central else 0


def _legend(entries: Sequence[Entry]) -> str:
    """Colour, shape and name of each model, for all plots of a section."""
    keys = "".join(
        f'<li><svg viewBox="0 0 12 12" aria-hidden="true"><path d="{_SHAPES[shape(at)]}" '
        f'fill="var(--series-{colour(at)})"/></svg>{text(entry.contender.name)}</li>'
        for at, entry in enumerate(entries)
    )
    return f'<ul class="legend">{keys}</ul>'
