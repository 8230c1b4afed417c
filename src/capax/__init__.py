"""capax: how much can attention remember? The public API; each name is loaded when it is first used."""

from __future__ import annotations

import importlib
import os

__version__: str

# On some processors MKL rounds a product differently where its arrays lie elsewhere in memory, as those of the members
# of a pack do. In this mode (oneMKL's Conditional Numerical Reproducibility) it does not. Read at the first product.
os.environ.setdefault("MKL_CBWR", "AUTO")

TYPE_CHECKING = False  # as from typing, which takes longer to import than all else before Ctrl-C can be answered
if TYPE_CHECKING:
    from typing import Any

    from capax import trackers as trackers
    from capax.calibration.calibrate import calibrate as calibrate
    from capax.checks.assumptions import check_assumptions as check_assumptions
    from capax.checks.model import check_model as check_model
    from capax.checks.saturation import saturation as saturation
    from capax.errors import CapaxError as CapaxError
    from capax.figures.figure import charts as charts
    from capax.figures.figure import figure as figure
    from capax.laws.capacity import CapacityLaw as CapacityLaw
    from capax.laws.compare import compare as compare
    from capax.laws.ecm import ECM as ECM
    from capax.laws.exposure import ExposureLaw as ExposureLaw
    from capax.laws.files import load_law as load_law
    from capax.laws.files import save_law as save_law
    from capax.laws.polynomial import Polynomial as Polynomial
    from capax.laws.power import AssociationLaw as AssociationLaw
    from capax.laws.power import BitsLaw as BitsLaw
    from capax.laws.power import DepthLaw as DepthLaw
    from capax.laws.power import LinearRelationLaw as LinearRelationLaw
    from capax.laws.power import PowerLaw as PowerLaw
    from capax.laws.power import RelationLaw as RelationLaw
    from capax.laws.rejected import ExponentialLaw as ExponentialLaw
    from capax.laws.rejected import LogisticLaw as LogisticLaw
    from capax.memory import load as load
    from capax.models.mixers.mixer import Mixer as Mixer
    from capax.planning.adapters import plan_lora as plan_lora
    from capax.planning.adapters import verify_lora as verify_lora
    from capax.planning.facts import plan_facts as plan_facts
    from capax.planning.facts import verify_facts as verify_facts
    from capax.planning.plan import plan as plan
    from capax.planning.predict import predict as predict
    from capax.planning.relations import plan_relations as plan_relations
    from capax.planning.size import model_size as model_size
    from capax.planning.verify import verify_plan as verify_plan
    from capax.probes.checkpoint import checkpoint as checkpoint
    from capax.probes.memorization import memorization as memorization
    from capax.probes.probe import probe as probe
    from capax.probes.quantization import quantize as quantize
    from capax.probes.sensitivity import Sensitivity as Sensitivity
    from capax.probes.sensitivity import sensitivity as sensitivity
    from capax.protocols.measure import measure as measure
    from capax.protocols.progress import Progress as Progress
    from capax.reports.report import report as report
    from capax.results import Measurement as Measurement
    from capax.specs import AssociationModule as AssociationModule
    from capax.specs import Associations as Associations
    from capax.specs import AssociativeAttention as AssociativeAttention
    from capax.specs import Biographies as Biographies
    from capax.specs import Budget as Budget
    from capax.specs import Capacity as Capacity
    from capax.specs import Facts as Facts
    from capax.specs import HuggingFace as HuggingFace
    from capax.specs import KeyQueryChannel as KeyQueryChannel
    from capax.specs import Lora as Lora
    from capax.specs import Mac as Mac
    from capax.specs import Mls as Mls
    from capax.specs import Model as Model
    from capax.specs import Module as Module
    from capax.specs import RelationModule as RelationModule
    from capax.specs import Relations as Relations
    from capax.specs import Run as Run
    from capax.specs import Sequences as Sequences
    from capax.specs import Shatter as Shatter
    from capax.specs import Task as Task
    from capax.specs import Text as Text
    from capax.specs import Training as Training
    from capax.specs import Transformer as Transformer
    from capax.specs import XTransformers as XTransformers
    from capax.specs.model import Constant as Constant
    from capax.specs.model import Normal as Normal
    from capax.specs.model import Parameter as Parameter
    from capax.specs.model import Uniform as Uniform
    from capax.store import Store as Store
    from capax.store.curves import curves as curves
    from capax.store.tables import read as read
    from capax.sweeps.sweep import sweep as sweep
    from capax.theory.bounds.catalogue import bounds as bounds
    from capax.theory.bounds.exceeded import exceeded as exceeded
    from capax.theory.claims.export import save_run as save_run
    from capax.theory.claims.verify import verify as verify
    from capax.theory.construct.construct import construct as construct
    from capax.theory.relation_design import channel_design as channel_design

_HOMES = {
    "AssociationLaw": "capax.laws.power",
    "AssociationModule": "capax.specs",
    "Associations": "capax.specs",
    "AssociativeAttention": "capax.specs",
    "Biographies": "capax.specs",
    "BitsLaw": "capax.laws.power",
    "Budget": "capax.specs",
    "CapacityLaw": "capax.laws.capacity",
    "CapaxError": "capax.errors",
    "Constant": "capax.specs.model",
    "DepthLaw": "capax.laws.power",
    "ECM": "capax.laws.ecm",
    "ExponentialLaw": "capax.laws.rejected",
    "ExposureLaw": "capax.laws.exposure",
    "Facts": "capax.specs",
    "HuggingFace": "capax.specs",
    "KeyQueryChannel": "capax.specs",
    "LogisticLaw": "capax.laws.rejected",
    "Lora": "capax.specs",
    "Mac": "capax.specs",
    "Measurement": "capax.results",
    "Mixer": "capax.models.mixers.mixer",
    "Capacity": "capax.specs",
    "Mls": "capax.specs",
    "Model": "capax.specs",
    "Module": "capax.specs",
    "Normal": "capax.specs.model",
    "Parameter": "capax.specs.model",
    "Polynomial": "capax.laws.polynomial",
    "PowerLaw": "capax.laws.power",
    "Progress": "capax.protocols.progress",
    "LinearRelationLaw": "capax.laws.power",
    "RelationLaw": "capax.laws.power",
    "RelationModule": "capax.specs",
    "Relations": "capax.specs",
    "Run": "capax.specs",
    "Sensitivity": "capax.probes.sensitivity",
    "Sequences": "capax.specs",
    "Shatter": "capax.specs",
    "Store": "capax.store",
    "Task": "capax.specs",
    "Text": "capax.specs",
    "Training": "capax.specs",
    "Transformer": "capax.specs",
    "Uniform": "capax.specs.model",
    "XTransformers": "capax.specs",
    "bounds": "capax.theory.bounds.catalogue",
    "calibrate": "capax.calibration.calibrate",
    "channel_design": "capax.theory.relation_design",
    "charts": "capax.figures.figure",
    "check_assumptions": "capax.checks.assumptions",
    "check_model": "capax.checks.model",
    "checkpoint": "capax.probes.checkpoint",
    "compare": "capax.laws.compare",
    "construct": "capax.theory.construct.construct",
    "curves": "capax.store.curves",
    "exceeded": "capax.theory.bounds.exceeded",
    "figure": "capax.figures.figure",
    "load": "capax.memory",
    "load_law": "capax.laws.files",
    "measure": "capax.protocols.measure",
    "memorization": "capax.probes.memorization",
    "model_size": "capax.planning.size",
    "plan": "capax.planning.plan",
    "plan_facts": "capax.planning.facts",
    "plan_lora": "capax.planning.adapters",
    "plan_relations": "capax.planning.relations",
    "predict": "capax.planning.predict",
    "probe": "capax.probes.probe",
    "quantize": "capax.probes.quantization",
    "read": "capax.store.tables",
    "report": "capax.reports.report",
    "save_law": "capax.laws.files",
    "saturation": "capax.checks.saturation",
    "save_run": "capax.theory.claims.export",
    "sensitivity": "capax.probes.sensitivity",
    "sweep": "capax.sweeps.sweep",
    "verify": "capax.theory.claims.verify",
    "verify_facts": "capax.planning.facts",
    "verify_lora": "capax.planning.adapters",
    "verify_plan": "capax.planning.verify",
}

__all__ = [*_HOMES, "__version__", "trackers"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("capax")
    if name == "trackers":
        return importlib.import_module("capax.trackers")
    if name not in _HOMES:
        raise AttributeError(f"module 'capax' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
