"""The report: a comparison of models as one HTML file that needs nothing else. Sections are in the order of the page.

It holds statistics of records, and where people live: for simulations only.
"""

import math
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

from prirec import __version__
from prirec.config import dump
from prirec.data.dataset import Dataset
from prirec.errors import StateError, UsageError
from prirec.evaluate import plots
from prirec.evaluate.html import beside, figure, folded, grid, items, packaged, page, paragraph, section, table
from prirec.evaluate.intervals import (
    FELT,
    Z_95,
    GroupAucs,
    Judged,
    RecordGroups,
    Scored,
    auc_by_group,
    auc_difference_by_group,
    auc_with_error,
    clearly_different,
    group_by_records,
    tested_on,
)
from prirec.evaluate.plots import MOST, City, colour, draw_map, frame_of, shape
from prirec.protocols.prediction import Moment, Suggestion
from prirec.protocols.reasons import Reason
from prirec.simulate.compare import Entry
from prirec.simulate.recommend import Advisor, advise, origin_of
from prirec.util.files import replacing
from prirec.util.shown import counted, number, text


@dataclass(frozen=True, slots=True)
class Advice:
    """Recommendations for one person, best first, and who that is in a few words."""

    person_note: str
    lines: tuple[Suggestion, ...]
    distance_from: str | None = "home"


def refuse_unwritable(path: Path) -> None:
    """UsageError, before any work, where no file can be written at this path."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file for the report, such as {path / 'report.html'}")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {path.parent} for the report; make it, or name another file")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is no regular file; name one for the report")


def write_report(
    path: Path, *, city: Dataset, entries: tuple[Entry, ...], advice: Advice | None, notes: Sequence[str] = (),
    judged: Judged | None = None,
) -> None:  # fmt: skip
    """Write the report, whole or not at all. `notes` are what to know about its figures, in sentences; `judged` is for
    whoever has drawn the intervals of these entries already."""
    if not entries:
        raise UsageError("a report needs at least one trained model")
    refuse_unwritable(path)
    html = report(city, judged or Judged(entries), advice, notes)
    try:
        with replacing(path) as file:
            file.write(html.encode())
    except OSError as error:
        raise StateError(f"the report could not be written to {path}: {error.strerror or error}") from None


def report(city: Dataset, judged: Judged, advice: Advice | None, notes: Sequence[str]) -> str:
    """The page. The same input gives the same bytes."""
    entries = judged.entries
    scored = [Scored.of(entry) for entry in entries]
    parts = [
        opening(city),
        who_holds_what(entries),
        comparison(entries, scored, judged),
        section("notes", "What to know about these figures", items(notes)) if notes else "",
        learning(entries),
        by_records(entries, scored),
        map_of(entries),
        "" if advice is None else advice_section(advice),
        small_print(entries),
    ]
    return page(title_of(city), [part for part in parts if part])


# Opening, who holds what, and the small print


def title_of(city: Dataset) -> str:
    return "PriRec on a synthetic city" if city.made_up else f"PriRec on “{city.name}”"


def opening(city: Dataset) -> str:
    """What this is, how large the city is, and what it is not."""
    origin = (
        "Its data are synthetic: nobody in it exists."
        if city.made_up
        else f"Its data are those of “{city.name}”; if they are about real people, so is this page."
    )
    tiles = [("people", len(city.people)), ("places", len(city.places)), ("records", len(city.visits))]
    cells = "".join(f"<div><b>{count:,}</b> {text(name)}</div>" for name, count in tiles)
    lead = (
        "Recommendations of nearby places, learnt while everyone’s features, visits and model stay on their own device."
    )
    note = (
        f"This is a simulation on one machine. {origin} The program saw all of it: nothing here was private to anyone."
    )
    return (
        f"<header>\n<h1>{text(title_of(city))}</h1>\n{paragraph(lead, kind='lead')}\n"
        f'<div class="tiles">{cells}</div>\n{paragraph(note, kind="honest")}\n</header>'
    )


def who_holds_what(entries: Sequence[Entry]) -> str:
    """What is on devices, what is public and what travels: a drawing, and the facts as lists."""
    lists = (
        ("On each device, and nowhere else", ["the person’s features", "the person’s visits", "the own model w"]),
        (
            "At the recommender, open to all",
            ["public features of places, and how popular they are", "B, the shared model: who likes which places"],
        ),
        (
            "What travels",
            [
                "to the recommender: masked gradients of B and visits, of which only sums over everyone can be read",
                "within a privacy budget: each with a share of noise, so that the sums tell little of anyone",
                "to the device: B, and whole regions of places, so that a download does not tell which place matters",
            ],
        ),
    )
    words = [f"<h3>{text(title)}</h3>\n{items(entries)}" for title, entries in lists]
    aside = (
        "This is how PriRec is laid out. Here, in a simulation, the sums are taken in the clear and the noise is drawn "
        "for all at once."
    )
    if any(entry.contender.settings.schedule == "centralised" for entry in entries):
        aside += " A centralised model collects everything instead."
    drawing = beside(packaged("who_holds_what.svg"), *words, paragraph(aside))
    return section("who-holds-what", "Who holds what", drawing)


def small_print(entries: Sequence[Entry]) -> str:
    """Settings, versions, and what is not protected."""
    settings = "\n".join(
        f"<details><summary>Settings of {text(entry.contender.name)}</summary>"
        f"<pre>{text(dump(entry.contender.settings))}</pre></details>"
        for entry in entries
    )
    tools = f"PriRec {__version__}, Python {platform.python_version()}, " + ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "numba", "matplotlib")
    )
    pointer = "<p>The whole list, with reasons, is in <code>docs/limitations.md</code>.</p>"
    made = section("settings", "Settings and versions", settings, paragraph(f"Made with {tools}.", kind="quiet"))
    return f"{made}\n{section('not-protected', 'What is not protected', items(_unprotected(entries)), pointer)}"


def _unprotected(entries: Sequence[Entry]) -> list[str]:
    designs = [entry.contender for entry in entries if entry.contender.model is None]
    exact = [one.name for one in designs if one.settings.privacy.epsilon_per_user is None]
    noisy = len(exact) < len(designs)
    return [
        "A simulation protects nobody: one program held all records, models and homes while it ran.",
        *([f"Without noise, sums exact and visits counted in the open: {'; '.join(exact)}."] if exact else []),
        *(["Simulated noise has the right strength, but comes from a seed that this program knows."] if noisy else []),
        "In a deployment, too, others see which regions a device downloads, and that and when it takes part.",
        "Enough devices that work together, or with the recommender, can narrow down what the others sent.",
        "A device that sends false gradients can spoil a sum.",
        "How long a device computes, and how much it sends, may tell something about its owner.",
        "Settings that were chosen by looking at private data carry something of these data.",
    ]


# How good each model is, and how it learnt


def comparison(entries: Sequence[Entry], scored: Sequence[Scored], judged: Judged) -> str:
    """What a person feels, then all test records: tables, and AUCs as dots with their uncertainty."""
    everyone, few = [], []
    for entry, one in zip(entries, scored, strict=True):
        name, quality = entry.contender.name, entry.outcome.quality
        everyone.append(plots.Dot(name, quality.auc, auc_with_error(one)[1]))
        few.append(plots.Dot(name, quality.auc_few, _error_of_few(entry, one)))
    limits = plots.limits_of([*everyone, *few])
    tested = max(entry.outcome.quality.records for entry in entries)
    return section(
        "comparison",
        "How good are they?" if len(entries) > 1 else "How good is it?",
        paragraph(worth, kind="short") if (worth := judged.worth()) else "",
        felt_table(judged),
        paragraph(
            f"± 95 % over people. Test records: {tested_on(entries[0].outcome.setup)}. NDCG@10 and "
            "recall@10: how high, and how many of, a person’s new places stand in a list of ten among the places near "
            f"home, for {counted(len(entries[0].ranked.person), 'person')}. AUC nearby: how often a new place "
            "scores above another of the 200 around it. GAUC: AUC within each person, averaged.",
            kind="quiet",
        ),
        in_short(entries, scored),
        comparison_table(entries),
        paragraph(
            ("★ best of its column. " if len(entries) > 1 else "")
            + f"All figures are on {tested:,} test records that no model has seen. AUC: how often a place that was "
            "visited scores above one that was not. Fewest records: the quarter of people with the fewest training "
            "records."
            + _about_pairs(entries)
            + (" Seconds: preparing, training and testing, on this machine." if timed(entries) else ""),
            kind="quiet",
        ),
        *(paragraph(_about_choice(entry), kind="quiet") for entry in entries if entry.chosen is not None),
        grid(
            [
                figure(plots.dots(rows, label=f"AUC of each model, {who}", limits=limits), f"AUC, {who}", _dots(rows))
                for rows, who in ((everyone, "everyone"), (few, "people with the fewest records"))
            ],
            kind="two",
        ),
        paragraph(
            "Whiskers are 95 % intervals (DeLong), which take records as independent"
            + ("; where they overlap widely, the order of the models may be chance." if len(entries) > 1 else "."),
            kind="quiet",
        ),
    )


def _dots(rows: Sequence[plots.Dot]) -> str:
    """The numbers of a dot plot."""
    return table(
        ("model", ">AUC", ">95 % from", ">to"),
        [(row.name, number(row.value), *(number(row.value + side * row.whisker) for side in (-1, 1))) for row in rows],
    )


def felt_table(judged: Judged) -> str:
    """Figures with intervals, one row a model; the best figure of each column carries a star."""
    rows, best = [], set()
    for entry, figures in zip(judged.entries, judged.estimates, strict=True):
        rows.append((entry.contender.name, *(str(figures[name]) for name in FELT)))
    for at, name in enumerate(FELT, start=1):
        shown = [number(figures[name].value, 3) for figures in judged.estimates]
        highest = max((one for one in shown if one != "–"), default="")
        best |= {(row, at) for row, one in enumerate(shown) if one == highest and len(shown) > 1}
    return table(("model", *(f">{title}" for title in FELT.values())), rows, best=best)


def _about_pairs(entries: Sequence[Entry]) -> str:
    seen = max(entry.outcome.quality.seen for entry in entries)
    if not seen:
        return ""
    return (
        f" New pairs: AUC without the {100 * seen:.1f} % of test records whose person and place are in a training "
        "record together, which a device may remember."
    )


def _about_choice(entry: Entry) -> str:
    if entry.chosen is None:
        return ""
    return (
        f"{entry.contender.name}: {entry.chosen.words}, the best of {entry.chosen.tried} settings and of all passes by "
        "AUC on a tenth of the training records, held out."
    )


def in_short(entries: Sequence[Entry], scored: Sequence[Scored]) -> str:
    """The best model that collects everything, beside the best that does not; nothing unless there are both."""
    quality = [entry.outcome.quality.auc for entry in entries]
    known = [at for at, auc in enumerate(quality) if math.isfinite(auc)]
    # what a model of somebody's own collects is not known from settings
    ours_or_fm = [at for at in known if entries[at].contender.model is None]
    central = [at for at in ours_or_fm if entries[at].contender.settings.schedule == "centralised"]
    decentralised = [at for at in ours_or_fm if at not in central]
    if not central or not decentralised:
        return ""
    theirs, ours = (max(group, key=quality.__getitem__) for group in (central, decentralised))
    chance = "" if clearly_different(scored[ours], scored[theirs]) else " The difference may be chance."
    return paragraph(
        f"AUC {number(quality[ours])} without collecting profiles and records ({entries[ours].contender.name}); "
        f"{number(quality[theirs])} with all of them collected ({entries[theirs].contender.name}).{chance}"
        + "".join(_within_budget(entries[at], quality[at]) for at in decentralised if at != ours),
        kind="short",
    )


def _within_budget(entry: Entry, auc: float) -> str:
    epsilon = entry.contender.settings.privacy.epsilon_per_user
    if epsilon is None:
        return ""
    return f" Within ε = {epsilon:g} for each person: {number(auc)} ({entry.contender.name})."


_UNITS = (
    " Rounds and passes are different units: in a round the shared model moves once, by a gradient of all records; "
    "in a pass it moves with every record or batch. Compare where curves end, not how fast they fall."
)


def learning(entries: Sequence[Entry]) -> str:
    """Training curves, one plot a model; models of somebody's own have none."""
    if not any(entry.history for entry in entries):
        return ""
    limits = plots.loss_limits(entries)
    drawn = [
        figure(plots.curve(e, at=at, limits=limits), e.contender.name, _curve(e))
        for at, e in enumerate(entries)
        if e.history
    ]
    watched = any(p.held_out_loss is not None for entry in entries for p in entry.history)
    return section(
        "learning",
        "How they learnt" if len(entries) > 1 else "How it learnt",
        paragraph(
            "The mean training loss before each step. The dotted line is a model that knows nothing, ln\u00a02."
            + (_UNITS if len(entries) > 1 else "")
            + (" Dashed: the loss on records held out to decide when to stop." if watched else "")
        ),
        grid(drawn, kind="three"),
    )


def _curve(entry: Entry) -> str:
    """The numbers of a training curve."""
    watched = any(passed.held_out_loss is not None for passed in entry.history)
    return table(
        (plots.unit_of(entry), ">training loss", *((">held out",) if watched else ())),
        [
            (
                str(passed.iteration), number(passed.loss),
                *((number(math.nan if passed.held_out_loss is None else passed.held_out_loss),) if watched else ()),
            )
            for passed in entry.history
        ],
    )  # fmt: skip


def _error_of_few(entry: Entry, scored: Scored) -> float:
    """The first of four groups is the quarter that auc_few is about."""
    groups = group_by_records(entry.outcome.setup.samples, groups=4)
    line = auc_by_group(groups, scored) if len(groups) else None
    return math.nan if line is None else float(line.error[0])


# The comparison as a table


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    value: Callable[[Entry], float]
    best: Callable[[Iterable[float]], float]  # max or min
    digits: int = 4

    def of(self, entry: Entry) -> str:
        return number(self.value(entry), self.digits)

    def best_of(self, entries: Sequence[Entry]) -> str:
        """The best figure as it is shown, so that what reads the same is marked the same; a single row has no best."""
        known = [self.value(entry) for entry in entries if math.isfinite(self.value(entry))]
        return number(self.best(known), self.digits) if len(known) > 1 else ""


_COLUMNS = (
    _Column("AUC", lambda entry: entry.outcome.quality.auc, max),
    _Column("AUC, new pairs", lambda entry: entry.outcome.quality.auc_new, max),
    _Column("log loss", lambda entry: entry.outcome.quality.log_loss, min),
    _Column("AUC, fewest records", lambda entry: entry.outcome.quality.auc_few, max),
    _Column("seconds", lambda entry: entry.seconds, min, digits=1),  # the last one: left out where nobody timed it
)


def timed(entries: Sequence[Entry]) -> bool:
    return any(math.isfinite(entry.seconds) for entry in entries)


def _worth_a_column(column: _Column, entries: Sequence[Entry]) -> bool:
    return column.title != "AUC, new pairs" or any(entry.outcome.quality.seen for entry in entries)


def comparison_table(entries: Sequence[Entry]) -> str:
    """One row a model; the best figure of each column carries a star."""
    shown = [column for column in (_COLUMNS if timed(entries) else _COLUMNS[:-1]) if _worth_a_column(column, entries)]
    columns = ("model", *(f">{column.title}" for column in shown), "what it collects")
    rows = [
        (entry.contender.name, *(column.of(entry) for column in shown), entry.contender.collects or "–")
        for entry in entries
    ]
    best = {
        (row, at)
        for at, column in enumerate(shown, start=1)
        for row in range(len(rows))
        if rows[row][at] == column.best_of(entries)
    }
    return table(columns, rows, best=best)


# Who gains: people with few records, or people with many


# The shapes of plots.marker as paths of 12 by 12, in the order of plots.MARKERS.
_SHAPES = (
    "M6 2a4 4 0 1 0 .01 0z", "M2.5 2.5h7v7h-7z", "M6 2l4 8H2z", "M6 1l5 5-5 5-5-5z", "M6 10L2 2h8z",
    "M4.5 2h3v2.5h2.5v3H7.5V10h-3V7.5H2v-3h2.5z", "M2 4l2-2 2 2 2-2 2 2-2 2 2 2-2 2-2-2-2 2-2-2 2-2z",
    "M6 1.5l4.5 3.3-1.7 5.2H3.2L1.5 4.8z",
)  # fmt: skip


def by_records(entries: Sequence[Entry], scored: Sequence[Scored]) -> str:
    """Who gains: the AUC of people with few and with many training records."""
    groups = group_by_records(entries[0].outcome.setup.samples)
    if not len(groups):
        return ""
    lines = [auc_by_group(groups, one) for one in scored]
    names = [entry.contender.name for entry in entries]
    caption = "AUC by how many training records a person has"
    drawn = [figure(plots.by_records(groups, lines), caption, _by_group(groups, names, lines))]
    base = _reference(entries)
    gains: list[GroupAucs | None] = [
        None if at == base else auc_difference_by_group(groups, one, scored[base]) for at, one in enumerate(scored)
    ]
    if any(gain is not None for gain in gains):
        name = names[base]
        drawing = plots.gains(groups, gains, reference=name)
        drawn.append(figure(drawing, f"Difference from {name}", _by_group(groups, names, gains)))
    differences = " Whiskers are 95 % intervals of the difference." if len(drawn) > 1 else ""
    return section(
        "who-gains",
        "Who gains?",
        paragraph(
            f"People in {len(groups)} groups, from few training records to many, with {min(groups.people):,} to "
            f"{max(groups.people):,} people each.{_how_sure(lines)}{differences}"
        ),
        _legend(entries),
        grid(drawn, kind="two"),
    )


def _by_group(groups: RecordGroups, names: Sequence[str], lines: Sequence[GroupAucs | None]) -> str:
    """A figure of each model in each group of people, with half of its 95 % interval."""
    shown = [(name, line) for name, line in zip(names, lines, strict=True) if line is not None]
    return table(
        ("training records", *(f">{name}" for name, _ in shown)),
        [
            (group, *(f"{number(line.auc[at])} ± {number(Z_95 * line.error[at])}" for _, line in shown))
            for at, group in enumerate(groups.names)
        ],
    )


def _how_sure(lines: Sequence[GroupAucs | None]) -> str:
    errors = np.concatenate([np.empty(0), *(line.error for line in lines if line is not None)])
    errors = errors[np.isfinite(errors)]
    return f" The AUC of a group is uncertain by about ±{Z_95 * float(np.median(errors)):.2f}." if len(errors) else ""


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


# The map: places, and people


def map_of(entries: Sequence[Entry]) -> str:
    """Places and people; nothing where the city has no coordinates."""
    entry = next((e for e in entries if e.contender.settings.schedule == "rounds"), entries[0])
    setup = entry.outcome.setup
    located, homes = setup.prepared.dataset.places.location, setup.samples.home
    if homes is None:
        return ""
    train, count = setup.prepared.train, len(setup.samples.places)
    city = City(
        places=np.full((count, 2), np.nan) if located is None else located,
        visitors=np.bincount(train.place[train.label > 0], minlength=count),
        homes=homes,
    )
    frame = frame_of(city)
    living = (
        "where they live" if setup.prepared.dataset.people.location is not None else "in the middle of their visits"
    )
    return "" if frame is None else section("map", "The city", beside(draw_map(city, frame), *_about_map(city, living)))


def _about_map(city: City, living: str) -> list[str]:
    notes = [
        paragraph(f"Grey dots are places, larger ones with more visits. Coloured dots are people, {living}."),
        folded(_dots_of_map(city)),
    ]
    if max(len(city.homes), len(city.places)) > MOST:
        notes.append(paragraph(f"At most {MOST:,} people and {MOST:,} places are drawn, evenly chosen.", kind="quiet"))
    notes.append(
        paragraph(
            "The report knows where people are only because this is a simulation. In a deployment nobody could draw "
            "this map: homes stay on devices.",
            kind="honest",
        )
    )
    return notes


def _dots_of_map(city: City) -> str:
    """How many dots of each size there are."""
    size, found = plots.sizes(city.visitors), list[tuple[str, ...]]()
    for at in range(size.max(initial=-1) + 1):
        visits = city.visitors[size == at]
        if len(visits):
            found.append((f"places, size {at + 1}", f"{len(visits):,}", f"{visits.min():,} to {visits.max():,}"))
    known = np.isfinite(city.homes).all(axis=1).sum()
    return table(("dots", ">how many", ">visits in training"), [*found, ("people", f"{known:,}", "–")])


# Recommendations for one person. In a deployment only that person sees them


_HALF = 100  # half the width of a bar's drawing


def advise_typical_person(advisor: Advisor, person: int) -> Advice:
    """Ten places for this person, who has the median number of training records."""
    records = advisor.setup.samples.train.counts()[person]
    origin = origin_of(advisor, person, Moment())
    where = f"at {origin} and " if origin == "home" else f"in {origin} and " if origin else ""
    note = f"For a person with the median number of training records ({records}), {where}at no particular time."
    return Advice(note, advise(advisor, person), origin)


def advice_section(advice: Advice) -> str:
    """The places in order, each with its reasons as bars on one scale."""
    longest = max((abs(reason.pull) for line in advice.lines for reason in line.reasons), default=0.0)
    cards = "\n".join(_card(line, longest, advice.distance_from) for line in advice.lines)
    how = (
        "The bars say why: each is a difference from the average nearby place, to the right where it speaks for this "
        "place and to the left where it speaks against it."
    )
    places = (
        f'<ol class="advice">\n{cards}\n</ol>' if advice.lines else paragraph("There is nothing to recommend nearby.")
    )
    return section("advice", "Recommendations for one person", paragraph(advice.person_note), paragraph(how), places)


def _card(line: Suggestion, longest: float, origin: str | None) -> str:
    about = f'<span class="about">{text(line.about)}</span>' if line.about else ""
    what = f'<b><bdi>{text(line.place)}</bdi></b>{about}<span class="odds">{_facts(line, origin)}</span>'
    return f'<li><div class="what">{what}</div>\n<div class="why">{_reasons(line.reasons, longest)}</div></li>'


def _facts(line: Suggestion, origin: str | None) -> str:
    percent = f"{100 * line.probability:.0f} %"
    share = {"100 %": "over 99 %", "0 %": "under 1 %"}.get(percent, percent) + " likely"
    return share if line.distance_km is None else f"{share} · {line.distance_km:.1f} km from {origin}"


def _reasons(reasons: Sequence[Reason], longest: float) -> str:
    if not reasons:
        return '<span class="about">nothing sets it apart from the average nearby place</span>'
    return "".join(
        f"<span>{text(reason.words)}</span>{_bar(reason.pull, longest)}"
        f'<span class="figure">{f"{reason.pull:+.2f}".replace("-", "−")}</span>'
        for reason in reasons
    )


def _bar(pull: float, longest: float) -> str:
    """From the middle to the right or left; drawn, not styled, so that paper shows it too."""
    length = _HALF * abs(pull) / longest if longest > 0 else 0.0
    start, kind = (_HALF, "for") if pull >= 0 else (_HALF - length, "against")
    return (
        f'<svg class="bar" viewBox="0 0 {2 * _HALF} 12" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{kind}" x="{start:.1f}" y="1" width="{length:.1f}" height="10"/>'
        f'<path d="M{_HALF} 0v12"/></svg>'
    )
