"""`python -m benchmarks [NAME ...]`: runs the named ones, or all but those of many minutes."""

import sys

import torch

from benchmarks import (
    adapt,
    adapters,
    associations,
    capacity,
    constants,
    construction,
    convergence,
    facts,
    faults,
    gpu,
    kruskal,
    laws,
    libraries,
    memory,
    micro_batch,
    readers,
    recipe,
    relations,
    report,
    shatter,
    step,
    subnormal,
    sweep,
    workers,
)
from capax import machine

BENCHMARKS = {
    "step": step.main,
    "libraries": libraries.main,
    "adapters": adapters.main,
    "shatter": shatter.main,
    "workers": workers.main,
    "memory": memory.main,
    "micro_batch": micro_batch.main,
    "laws": laws.main,
    "adapt": adapt.main,
    "sweep": sweep.main,
    "associations": associations.main,
    "subnormal": subnormal.main,
    "kruskal": kruskal.main,
    "relations": relations.main,
    "construction": construction.main,
    "report": report.main,
    "readers": readers.main,
    "facts": facts.main,
    "gpu": gpu.main,
}
BY_NAME_ONLY = {
    "constants": constants.main,
    "faults": faults.main,
    "convergence": convergence.main,
    "capacity": capacity.main,
    "recipe": recipe.main,
}

if __name__ == "__main__":
    every = BENCHMARKS | BY_NAME_ONLY
    unknown = [name for name in sys.argv[1:] if name not in every]
    if unknown:
        raise SystemExit(f"no benchmark {unknown[0]!r}; there are {', '.join(every)}")
    print(f"{machine.versions()}, {machine.cores()} cores, {torch.backends.cpu.get_cpu_capability()}", flush=True)
    for name in sys.argv[1:] or BENCHMARKS:
        every[name]()
