"""Writes the vectors: `PYTHONPATH=tests python -m vectors.make`. What is right is what the reference says, and where a
standard has printed an answer, the reference is held to it first."""

import json
from pathlib import Path

from vectors import (
    cases_campaigns,
    cases_contributions,
    cases_documents,
    cases_envelopes,
    cases_features,
    cases_keys,
    cases_ledger,
    cases_model,
    cases_norm,
    cases_operators,
    cases_proofs,
    cases_ring,
    cases_shamir,
)

HERE = Path(__file__).parent
FILES = {
    "fixed_point.json": cases_ring.fixed_point,
    "additive.json": cases_ring.additive,
    "masks.json": cases_ring.masks,
    "shamir.json": cases_shamir.shamir,
    "derivation.json": cases_keys.derivation,
    "agreement.json": cases_keys.agreement,
    "signatures.json": cases_keys.signatures,
    "boxes.json": cases_proofs.boxes,
    "reports.json": cases_proofs.reports,
    "operators.json": cases_proofs.operators,
    "messages.json": cases_operators.messages,
    "statements.json": cases_operators.statements,
    "envelopes.json": cases_envelopes.envelopes,
    "norm.json": cases_norm.norm,
    "documents.json": cases_documents.documents,
    "features.json": cases_features.features,
    "records.json": cases_features.records,
    "models.json": cases_model.models,
    "recommendations.json": cases_model.recommendations,
    "ledger.json": cases_ledger.ledger,
    "contributions.json": cases_contributions.contributions,
    "popularity.json": cases_contributions.popularity,
    "log.json": cases_documents.log,
    "campaigns.json": cases_campaigns.campaigns,
}


def texts() -> dict[str, str]:
    """What each file must hold, one vector a line."""
    lines = {name: [json.dumps(entry, ensure_ascii=False) for entry in cases()] for name, cases in FILES.items()}
    return {name: "[\n" + ",\n".join(entries) + "\n]\n" for name, entries in lines.items()}


if __name__ == "__main__":
    for name, text in texts().items():
        (HERE / name).write_text(text, encoding="utf-8")
