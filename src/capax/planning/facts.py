"""Plans for a file of facts: which network, and which tokens, recall a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from capax.errors import LawError, SpecError, shown
from capax.laws.capacity import CapacityLaw
from capax.laws.files import load_law
from capax.laws.law import Law
from capax.planning.bits import frontier
from capax.planning.cost import Accelerator
from capax.planning.plan import usable
from capax.planning.question import Question
from capax.planning.results import BYTES, Bounds, Network, Precision
from capax.protocols.measure import measure
from capax.results import Measurement, Result
from capax.specs import Facts, Mac
from capax.tasks.facts.encoding import prepared
from capax.tasks.facts.table import Ambiguity, ambiguity
