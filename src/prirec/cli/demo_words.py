"""What prirec demo says: to people as soon as it is known, to programs as one JSON object in the end."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import typer

from prirec.cli.advice import as_dict, show_advice
from prirec.cli.contenders import CHOSEN
from prirec.cli.output import SIMULATION, figure, program, show_json, show_table
from prirec.data.dataset import Dataset
from prirec.evaluate.comparison import Entry
from prirec.evaluate.report import Advice


class Words(Protocol):
    """Told in this order, once each."""

    def city(self, city: Dataset) -> None: ...
    def models(self, entries: Sequence[Entry]) -> None: ...
    def places(self, person: str, advice: Advice) -> None: ...
    def end(self, *, report: Path, run: Path, data: Path) -> None: ...


class ForPeople:
    """Lines and tables."""

    def __init__(self) -> None:
        self._person = ""

    def city(self, city: Dataset) -> None:
        counts = f"{len(city.people):,} people, {len(city.places):,} places and {len(city.visits):,} records"
        typer.echo(f"a city of {counts}, all made up\n")

    def models(self, entries: Sequence[Entry]) -> None:
        qualities = [(entry.contender, entry.outcome.quality) for entry in entries]
        rows = [
            (model.name, figure(q.auc), figure(q.log_loss), figure(q.auc_few), figure(q.gauc), model.collects)
            for model, q in qualities
        ]
        show_table(("model", ">AUC", ">log loss", ">AUC of few", ">GAUC", "what it collects"), rows)
        typer.echo("AUC of few: the quarter of people with fewest records; GAUC: within each person")
        typer.echo("only PriRec, private has noise in its sums; what noise costs falls with the number of people")
        typer.echo(f"{SIMULATION}\n")

    def places(self, person: str, advice: Advice) -> None:
        self._person = person
        show_advice(advice.lines, origin="home", title=f"Places for {person}: {advice.person_note}")
        typer.echo("")

    def end(self, *, report: Path, run: Path, data: Path) -> None:
        typer.echo(f"report  {report}")
        typer.echo(f"run     {run}  ({CHOSEN})")
        typer.echo(f"data    {data}")
        asked = ("recommend", str(run), str(data), "--person", self._person, "--at", "2024-05-04T19:30")
        typer.echo(f"next: {shlex.join((*program(), *asked))}")


class ForPrograms:
    """One JSON object; nothing where something is refused."""

    def __init__(self) -> None:
        self._answer: dict[str, Any] = {}

    def city(self, city: Dataset) -> None:
        counts = {"people": len(city.people), "places": len(city.places), "records": len(city.visits)}
        self._answer["city"] = counts

    def models(self, entries: Sequence[Entry]) -> None:
        self._answer["models"] = [
            {"model": one.contender.name, "collects": one.contender.collects, "quality": one.outcome.quality.as_dict()}
            for one in entries
        ]

    def places(self, person: str, advice: Advice) -> None:
        self._answer["recommended"] = {
            "by": CHOSEN,
            "person": person,
            "places": [as_dict(line) for line in advice.lines],
            "distance_from": "home",
        }

    def end(self, *, report: Path, run: Path, data: Path) -> None:
        show_json({**self._answer, "report": str(report), "run": str(run), "data": str(data)})
