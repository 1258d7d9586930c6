"""Recommendations for one person, as the report shows them. In a deployment only the person sees this."""

from collections.abc import Sequence
from dataclasses import dataclass

from prirec.evaluate.reporting.page import paragraph, section, text
from prirec.protocols.reasons import Reason

_HALF = 100  # half the width of a bar's drawing


@dataclass(frozen=True, slots=True)
class AdviceLine:
    """A recommended place."""

    place: str
    about: str
    distance_km: float | None
    probability: float
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Advice:
    """Recommendations for one person, best first, and who that is in a few words."""

    person_note: str
    lines: tuple[AdviceLine, ...]


def advice_section(advice: Advice) -> str:
    """The places in order, each with its reasons as bars on one scale."""
    longest = max((abs(reason.pull) for line in advice.lines for reason in line.reasons), default=0.0)
    cards = "\n".join(_card(line, longest) for line in advice.lines)
    how = (
        "The bars say why: each is a difference from the average nearby place, to the right where it speaks for this "
        "place and to the left where it speaks against it."
    )
    places = (
        f'<ol class="advice">\n{cards}\n</ol>' if advice.lines else paragraph("There is nothing to recommend nearby.")
    )
    return section("advice", "Recommendations for one person", paragraph(advice.person_note), paragraph(how), places)


def _card(line: AdviceLine, longest: float) -> str:
    about = f'<span class="about">{text(line.about)}</span>' if line.about else ""
    what = f'<b><bdi>{text(line.place)}</bdi></b>{about}<span class="odds">{_facts(line)}</span>'
    return f'<li><div class="what">{what}</div>\n<div class="why">{_reasons(line.reasons, longest)}</div></li>'


def _facts(line: AdviceLine) -> str:
    percent = f"{100 * line.probability:.0f} %"
    share = {"100 %": "over 99 %", "0 %": "under 1 %"}.get(percent, percent) + " likely"
    return share if line.distance_km is None else f"{share} · {line.distance_km:.1f} km from home"


def _reasons(reasons: Sequence[Reason], longest: float) -> str:
    if not reasons:
        return '<span class="about">nothing sets it apart from the average nearby place</span>'
    return "".join(
        f"<span>{text(reason.name)}</span>{_bar(reason.pull, longest)}"
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
