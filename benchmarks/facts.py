"""What reading 5 million triples takes, and holding them as a table: processor time and peak memory, TSV and N-Triples.

Beside it what Python takes to go through the same lines and split them; they are read in turn, each time in a process
of its own, and the ratio is the median over rounds. A quarter as many subjects as triples, each with four relations,
and answers out of a million.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

TRIPLES, RELATIONS, ANSWERS = 5_000_000, 4, 1_000_000
ROUNDS = 3
BEGIN = """
import resource, sys, time
from pathlib import Path
{imports}
path = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.process_time()
count = {count}
print(count, time.process_time() - began, before / 1e3, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
"""
READ = BEGIN.format(imports="from capax.tasks.facts.files.read import read", count="sum(1 for _ in read(path))")
HELD = BEGIN.format(
    imports="from capax.tasks.facts.files.read import read\nfrom capax.tasks.facts.table import collect",
    count="len(collect(read(path)))",
)
PLAIN = BEGIN.format(imports="", count="sum(1 for line in path.open(encoding='utf-8') if line.split())")


class Taken(NamedTuple):
    """What a reading took: seconds of a processor, megabytes before it and at its peak."""

    seconds: float
    before: float
    peak: float


def taken(program: str, path: Path) -> Taken:
    """What a program takes to read a file in a process of its own."""
    command = [sys.executable, "-c", program, str(path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Taken(*map(float, said.split()[1:]))


def write(folder: Path, triples: int) -> dict[str, Path]:
    """The same triples as TSV and as N-Triples."""
    drawn = random.Random(0)
    paths = {"TSV": folder / "facts.tsv", "N-Triples": folder / "facts.nt"}
    with paths["TSV"].open("w") as tsv, paths["N-Triples"].open("w") as ntriples:
        tsv.write("subject\trelation\tobject\n")
        for number in range(triples):
            subject, relation = f"s{number // RELATIONS}", f"r{number % RELATIONS}"
            answer = f"o{drawn.randrange(ANSWERS)}"
            tsv.write(f"{subject}\t{relation}\t{answer}\n")
            ntriples.write(
                f"<http://example.org/item/{subject}> <http://example.org/relation/{relation}> "
                f"<http://example.org/item/{answer}> .\n"
            )
    return paths


def main(triples: int = TRIPLES, rounds: int = ROUNDS) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        for kind, path in write(Path(name), triples).items():
            found = [tuple(taken(program, path) for program in (PLAIN, READ, HELD)) for _ in range(rounds)]
            for way, place in (("read", 1), ("held", 2)):
                ratio = median(one[place].seconds / one[0].seconds for one in found)
                seconds, plain = (median(one[at].seconds for one in found) for at in (place, 0))
                peak = median(one[place].peak for one in found)
                more = median(one[place].peak - one[place].before for one in found)
                print(
                    f"facts  {kind:9} {triples} triples, {path.stat().st_size / 1e6:.0f} MB, {way}: {seconds:.1f} s of "
                    f"a processor, split lines alone {plain:.1f} s, ratio {ratio:.1f}; peak {peak:.0f} MB, of which "
                    f"{more:.0f} for it",
                    flush=True,
                )
                rows.append({"kind": kind, "way": way, "triples": triples, "seconds": seconds, "ratio": ratio})
    return rows


if __name__ == "__main__":
    main()
