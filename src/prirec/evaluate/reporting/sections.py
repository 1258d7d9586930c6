"""The parts of the report that are words: what this is, who holds what, and the small print."""

import platform
from collections.abc import Sequence
from importlib.metadata import version

from prirec import __version__
from prirec.data.dataset import Dataset
from prirec.evaluate.comparison import Entry
from prirec.evaluate.reporting.page import beside, items, packaged, paragraph, section, text
from prirec.settings_file import dump


def title_of(city: Dataset) -> str:
    return "PriRec on a synthetic city" if city.made_up else f"PriRec on “{city.name}”"


def opening(city: Dataset) -> str:
    """What this is, how large the city is, and what it is not."""
    origin = (
        "Its data are synthetic: nobody in it exists."
        if city.made_up
        else f"Its data were read from the folder “{city.name}”; if they are about real people, so is this page."
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


def who_holds_what() -> str:
    """The picture, and the same in words."""
    lists = (
        ("On each device, and nowhere else", ["the person’s features", "the person’s visits", "the linear model W"]),
        (
            "At the recommender, open to all",
            ["public features of places, and how popular they are", "V: how features act together"],
        ),
        (
            "What travels",
            [
                "between devices: shares of linear models, of which only a sum over neighbours can be read",
                "to the recommender: masked gradients of V and visits, of which only sums can be read",
                "in “PriRec, private”: each with a share of noise, so that the sums tell little of anyone",
                "to the device: V, and whole regions of places, so that a download does not tell which place matters",
            ],
        ),
    )
    words = [f"<h3>{text(title)}</h3>\n{items(entries)}" for title, entries in lists]
    aside = (
        "This is how PriRec is laid out. Here, in a simulation, the sums are taken in the clear and the noise is drawn "
        "for all at once. A centralised model, compared below, collects everything instead."
    )
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
    return "\n".join(
        [
            section("settings", "Settings and versions", settings, paragraph(f"Made with {tools}.", kind="quiet")),
            section("not-protected", "What is not protected", items(_unprotected(entries)), _pointer()),
        ]
    )


def _pointer() -> str:
    return "<p>The whole list, with reasons, is in <code>docs/limitations.md</code>.</p>"


def _unprotected(entries: Sequence[Entry]) -> list[str]:
    exact = [entry.contender.name for entry in entries if entry.contender.settings.privacy.epsilon_per_user is None]
    noisy = len(exact) < len(entries)
    return [
        "A simulation protects nobody: one program held all records, models and homes while it ran.",
        *([f"Without noise, sums exact and visits counted in the open: {'; '.join(exact)}."] if exact else []),
        *(["Simulated noise has the right strength, but comes from a seed that this program knows."] if noisy else []),
        "In a deployment, too, others see the coarse cell that a device names, the regions that it downloads, and that "
        "and when it takes part.",
        "Enough devices that work together, or with the recommender, can narrow down what the others sent.",
        "A device that sends false models or gradients can spoil a sum.",
        "How long a device computes, and how much it sends, may tell something about its owner.",
        "Settings that were chosen by looking at private data carry something of these data.",
    ]
