"""Writes the schemas of every JSON that a command prints: `python docs/schemas/make.py`. A test compares them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from capax.calibration.calibrate import Calibration
from capax.checks.assumptions import AssumptionReport
from capax.checks.model import ModelReport
from capax.checks.saturation import Saturation
from capax.laws.files import LawFile
from capax.laws.report import FitReport
from capax.papers.recipe import RecipeList
from capax.papers.reproduce import Reproduction
from capax.planning.adapter_plan import AdapterPlan
from capax.planning.facts_plan import FactsPlan
from capax.planning.relations import RelationPlan
from capax.planning.results import BitsFrontier, Frontier, Prediction
from capax.planning.size import ModelSize
from capax.probes.checkpoint import Checkpoint
from capax.probes.memorization import Memorization
from capax.probes.probe import Probes
from capax.probes.quantization import Quantization
from capax.probes.sensitivity import Sensitivity
from capax.results import FactRecall, Info, Measurement, Recall, SweepSummary
from capax.store.schema import Failure
from capax.sweeps.preview import Preview
from capax.theory.bounds.catalogue import Catalogue
from capax.theory.claims.verify import Verified
from capax.theory.construct.report import ConstructionReport, RelationReport

PRINTED: dict[str, Any] = {
    "measurement": Measurement,  # capax measure … --json
    "sensitivity": Sensitivity,  # capax measure … --sensitivity … --json
    "runs": list[Measurement],  # capax runs --json
    "failures": list[Failure],  # capax runs --failed --json
    "recall": Recall | FactRecall,  # capax runs recall … --json
    "probe": Probes,  # capax runs probe … --json
    "memorization": Memorization,  # capax runs memorization … --json
    "quantization": Quantization,  # capax quantize … --json
    "info": Info,  # capax info --json
    "sweep": SweepSummary,  # capax sweep --json
    "preview": Preview,  # capax sweep --dry-run --json
    "fit": FitReport,  # capax fit --json
    "law": LawFile,  # capax fit --out
    "prediction": Prediction,  # capax predict … --json
    "bounds": Catalogue,  # capax bounds --json
    "check_assumptions": AssumptionReport,  # capax check assumptions … --json
    "calibration": Calibration,  # capax calibrate --json
    "check_model": ModelReport,  # capax check model … --json
    "plan": BitsFrontier | Frontier,  # capax plan … --json
    "size": ModelSize,  # capax size … --json
    "plan_facts": FactsPlan,  # capax plan facts … --json
    "plan_relations": RelationPlan,  # capax plan relations … --json
    "plan_lora": AdapterPlan,  # capax plan lora … --json
    "checkpoint": Checkpoint,  # capax runs checkpoint … --json
    "reproduction": Reproduction,  # capax reproduce PAPER --json
    "recipes": RecipeList,  # capax reproduce --list --json
    "check_saturation": Saturation,  # capax check saturation --json
    "construction": ConstructionReport,  # capax construct associations --json
    "construction_relations": RelationReport,  # capax construct relations --json
    "verified": Verified,  # capax verify --json
}


def schemas() -> dict[str, str]:
    """The text of each schema file."""
    return {
        name: json.dumps(TypeAdapter(kind).json_schema(mode="serialization"), indent=2) + "\n"
        for name, kind in PRINTED.items()
    }


if __name__ == "__main__":
    for name, text in schemas().items():
        Path(__file__).with_name(f"{name}.json").write_text(text)
