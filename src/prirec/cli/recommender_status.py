"""prirec recommender status: how a deployment stands."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer

from prirec.cli.options import Json, examples
from prirec.cli.recommender_store import CertificateFolder, StoreName, certificates, opened

if TYPE_CHECKING:
    from datetime import datetime

    from prirec.recommender.certificates import Certificates
    from prirec.recommender.standing import Campaign, Standing

EPILOG = examples("prirec recommender status town.db", "prirec recommender status town.db --json")
SOON = 60  # days before its end at which a certificate is worth a word


def status(store: StoreName, *, folder: CertificateFolder = None, json: Json = False) -> None:
    """Say how a deployment stands: people, campaign, log, mail."""
    from datetime import UTC, datetime

    from prirec.cli.output import note, show_json, show_table
    from prirec.recommender.standing import standing

    with opened(store) as held:
        found = standing(held)
    end = _end(certificates(folder, store))
    if json:
        show_json(_as_dict(found, end=end))
        return
    show_table((found.title, ""), _rows(found, end=end))
    typer.echo(f"fingerprint {found.fingerprint}")
    if end is not None and (left := (end - datetime.now(UTC)).days) < SOON:
        when = "has ended" if left < 0 else f"ends in {left} days"
        note(f"the server's certificate {when}: prirec recommender keys rotate")


def _end(files: "Certificates") -> "datetime | None":
    """Of the certificate in the folder; a deployment may have others."""
    from prirec.recommender.certificates import ends

    return ends(files.certificate) if files.certificate.exists() else None


def _rows(found: "Standing", *, end: "datetime | None") -> list[tuple[str, str]]:
    counts = found.counts
    return [
        ("certificate until", "not in the folder" if end is None else f"{end:%Y-%m-%d}"),
        ("people enrolled", f"{counts.people:,}"),
        ("places in the catalogue", "none published yet" if found.places is None else f"{found.places:,}"),
        *_campaign(found.campaign),
        ("entries in the log", f"{counts.entries:,}"),
        ("sums open now", f"{counts.open_rounds:,}"),
        ("messages to be heard", f"{counts.messages:,}"),
        ("letters waiting", f"{counts.letters:,}"),
    ]


def _campaign(found: "Campaign | None") -> list[tuple[str, str]]:
    if found is None:
        return [("campaign", "none yet")]
    over = {"over": "over: its model is published", "failed": f"failed: {_failure(found)}"}
    return [
        ("campaign", f"{found.number}, with {found.people:,} people"),
        ("phase", over.get(found.phase, found.phase) + (f", attempt {found.attempt + 1}" if found.attempt else "")),
        ("rounds behind it", f"{found.round:,} of {found.rounds:,}"),
    ]


def _failure(found: "Campaign") -> str:
    """What ended it without a model: its last sum, or its operator, who leaves an attempt or a round unfinished."""
    if found.round == found.rounds:
        return "V was never moved"
    last = found.past[-1] if found.past else None
    attempts = sum(past.kind == "visits" for past in found.past)
    if last is not None and last.kind == "visits" and not last.opened and attempts > found.attempt:
        return "its sum of visits was not opened"
    return "its operator ended it"


def _as_dict(found: "Standing", *, end: "datetime | None") -> dict[str, Any]:
    told = asdict(found)
    counts, campaign = told.pop("counts"), told["campaign"]
    if campaign is not None:
        campaign.pop("past")
    until = None if end is None else end.isoformat()
    return {**told, "certificate_until": until, **counts}
