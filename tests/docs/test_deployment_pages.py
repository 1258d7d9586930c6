"""Every command on the pages about a deployment is run, as it stands there, in a real one.

What a reader has and a test has not is put in its place: two machines are one, with the name localhost and a free port;
what is carried by hand is carried; and where the page says that there are enough devices, sixty come and take part."""

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from prirec.data.folder import read_folder
from prirec.recommender.observability import Metrics
from prirec.rehearsal.deployment import free_port
from support import shell
from support.pages import CITY_OF_TWO, CITY_UP, HERE, ON_STAGE, TWO_OPERATORS, commands
from support.postgres import GROUP, postgres
from support.running_deployment import Others, Running, running

__all__ = ["postgres"]
DEPLOYMENT, OPERATOR = ON_STAGE
BEFORE_THE_OPERATOR = (
    'prirec recommender init town.db --title "Our town" --host recommender.example',
    "prirec data make town --people 60 --places 40 --records 480",
    "prirec recommender publish town.db town",
)


class Stage:
    """Where a page is played. `words` stand for what a reader would put in their place."""

    def __init__(self, folder: Path, jobs: ExitStack, words: dict[str, str]) -> None:
        self.folder, self.words, self._jobs = folder, words, jobs
        self._background: dict[str, Running] = {}

    def play(self, line: str) -> str:
        """One line of a page; what it printed."""
        for word, here in self.words.items():
            line = line.replace(word, here)
        words = shlex.split(line)
        if words[-1] == "&":
            self._background[line] = self._started(words[:-1])
            return ""
        program, *rest = words
        assert program == "prirec", line
        with chdir(self.folder):
            found = shell.call(*rest)
        assert found.exit_code == 0, f"{line}\n{found.stderr}"
        for key in re.findall(r"next key +([0-9a-f]{64})", found.stdout):
            self.words["NEXT"] = key
        return found.stdout

    def stop(self, about: str = "") -> None:
        """Ctrl-C for what runs in the background, the last first."""
        for job in reversed(self.jobs(about)):
            assert job.end() == 0, job.lines
            self._background = {line: other for line, other in self._background.items() if other is not job}

    def jobs(self, about: str = "") -> list[Running]:
        """In the background, with these words in their line."""
        return [job for line, job in self._background.items() if about in line]

    def _started(self, words: list[str]) -> Running:
        job = self._jobs.enter_context(running(*words, cwd=self.folder, env=HERE))
        job.heard('"serving"' if "serve" in words else "running")
        return job


@contextmanager
def stage(**more: str) -> Iterator[Stage]:
    memory = Path("/dev/shm")  # noqa: S108
    port = str(free_port())
    words = {**more, "8443": port, "recommender.example": "localhost", "0.0.0.0": "127.0.0.1"}  # noqa: S104
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder, ExitStack() as jobs:
        yield Stage(Path(folder), jobs, words)


def carry(on: Stage, printed: str) -> None:
    """What the operator hands to devices: a file and a fingerprint."""
    shutil.copy(on.folder / "town.db.tls" / "authority.pem", on.folder)
    (on.words["FINGERPRINT"],) = re.findall(r"fingerprint\s+([0-9a-f]{64})", printed)


def come(on: Stage) -> Others:
    """Sixty devices join; their people are those of the town that the page made up."""
    town = read_folder(on.folder / "town").dataset
    others = Others(town, on.folder / "others", store=on.folder / "town.db")
    address = f"https://localhost:{on.words['8443']}"
    others.enrol(address, authority=(on.folder / "authority.pem").read_bytes())
    return others


@pytest.mark.long
def test_the_page_for_a_newcomer_leads_to_recommendations_on_a_phone():
    said = {}
    with stage() as on:
        for line in commands(DEPLOYMENT):
            if line == CITY_UP:
                continue
            others = come(on) if "rounds begin" in line else None
            if " forget " in line:
                on.stop("device run phone.db")
            said[line] = on.play(line)
            if " init town.db" in line:
                carry(on, said[line])
            if others is not None:
                others.take_part(authority=(on.folder / "authority.pem").read_bytes())
                for job in on.jobs("device run"):
                    job.heard("a new model is here")
        on.stop()
        exported = json.loads((on.folder / "mine.json").read_text(encoding="utf-8"))
    (status,) = (said[line] for line in said if "recommender status" in line)
    (listed,) = (said[line] for line in said if "rounds list" in line)
    first, advice = (said[line] for line in said if "device recommend" in line)
    assert re.search(r"people enrolled +2\b", status)
    assert len(re.findall(r"yes +62 +62\b", listed)) == 3
    assert "the operator's starting model" in first
    assert "why" in advice
    assert "the model of campaign 0" in advice
    assert [one["place"] for one in exported["visits"]] == ["p01", "p02"]
    assert len(exported["spent"]) == 3


@pytest.mark.long
def test_the_page_for_two_operators_leads_to_a_model_that_both_have_computed():
    helps = free_port()
    words = {
        "https://helper.example:8443": f"https://localhost:{helps}", "helper.example": "localhost",
        "helper.db --host 0.0.0.0 --port 8443": f"helper.db --host 127.0.0.1 --port {helps}",
        # long enough for sixty devices on a busy machine: a window that is too short is extended
        "--window 6h": "--window 20s --set floor=50 --iterations 1 --anyway",
    }  # fmt: skip
    said = {}
    with stage(**words) as on:
        for line in commands(TWO_OPERATORS):
            if line == CITY_OF_TWO:
                continue
            others = come(on) if "rounds begin" in line else None
            if "rounds end" in line:
                on.play("prirec recommender rounds begin town.db --window 6h")  # the first is over
            said[line] = on.play(line)
            if " init helper.db" in line:
                shutil.copy(on.folder / "helper.db.tls" / "authority.pem", on.folder / "helper.pem")
                (on.words["KEY"],) = re.findall(r"key\s+([0-9a-f]{64})", said[line])
            if " init town.db" in line:
                carry(on, said[line])
                (on.words["ID"],) = re.findall(r"--deployment ([0-9a-f]{32})", said[line])
            if others is not None:
                others.take_part(authority=(on.folder / "authority.pem").read_bytes())
            if "--finish" in line:
                for job in on.jobs("device run"):
                    job.heard("the recommender has another key")
        on.stop()
    listed, helped = (next(said[line] for line in said if words in line) for words in ("rounds list", "helper status"))
    assert len(re.findall(r"yes +(5\d|6[01]) +", listed)) == 3
    assert re.search(r"campaign +0: ", helped)
    assert any("restored" in told for told in said.values())
    (status,) = (said[line] for line in said if "device status" in line)
    assert re.findall(r"(helper|recommender)'s key +rotated", status) == ["helper", "recommender"]


@GROUP
def test_the_page_for_the_operator_can_be_followed(postgres):
    with postgres.lent() as url, stage() as on:
        on.words["postgresql://prirec@db.example/prirec"] = url
        for line in (*BEFORE_THE_OPERATOR, *commands(OPERATOR)):
            on.play(line)
        assert on.play("prirec recommender status town-copy.db --json")


def test_metrics_and_files_named_for_the_operator_exist():
    page = OPERATOR.read_text(encoding="utf-8")
    known = Metrics().page().decode()
    told = set(re.findall(r"`(prirec_\w+)`", page))
    assert len(told) >= 3
    assert not [name for name in told if f"# TYPE {name} " not in known]


@pytest.mark.parametrize("page", [*ON_STAGE, TWO_OPERATORS], ids=lambda page: page.name)
def test_every_command_of_the_program_on_these_pages_is_one(page):
    """Those in the text, too."""
    from typer.main import get_command

    from prirec.cli.main import app

    for words in re.findall(r"`prirec ((?:recommender|helper|device|city)[^`]*)`", page.read_text(encoding="utf-8")):
        command = get_command(app)
        for word in words.split():
            command = getattr(command, "commands", {}).get(word, command)
        assert not hasattr(command, "commands"), words
