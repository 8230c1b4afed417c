"""Files of facts of several structures, for facts.toml: `python made.py FOLDER`."""

import sys
from pathlib import Path

import numpy as np

draw = np.random.default_rng(0)


def uniform(keys, answers):
    return [(f"k{n}", "", f"a{a}") for n, a in enumerate(draw.integers(answers, size=keys))]


def zipf(keys, answers):
    share = 1 / np.arange(1, answers + 1)
    return [(f"k{n}", "", f"a{a}") for n, a in enumerate(draw.choice(answers, keys, p=share / share.sum()))]


def relations(keys, answers):
    """Every key has as many relations as there are numbers of answers."""
    return [
        (f"k{n}", f"r{place}", f"r{place}a{draw.integers(count)}")
        for n in range(keys)
        for place, count in enumerate(answers)
    ]


def tree(nodes):
    """The parent of each node, drawn from those before it: keys are answers, too."""
    return [(f"n{n}", "", f"n{draw.integers(n)}") for n in range(1, nodes)]


def bipartite(keys, answers):
    """Each answer exactly as often as any other: no answer is commoner."""
    return [(f"k{n}", "", f"a{a}") for n, a in enumerate(draw.permutation(np.arange(keys) % answers))]


FILES = {
    "uniform-600": uniform(600, 600),
    "uniform-1500": uniform(1500, 1500),
    "few-2500": uniform(2500, 30),
    "binary-6000": uniform(6000, 2),
    "zipf-2000": zipf(2000, 1000),
    "relations-1500": relations(300, (2, 10, 50, 200, 300)),
    "relations-2400": relations(800, (12, 12, 800)),
    "tree-1500": tree(1500),
    "even-2000": bipartite(2000, 100),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    for name, facts in FILES.items():
        rows = "".join("\t".join(fact) + "\n" for fact in (("key", "relation", "answer"), *facts))
        if not any(relation for _, relation, _ in facts):
            rows = "".join(f"{key}\t{answer}\n" for key, answer in (("key", "answer"), *((k, a) for k, _, a in facts)))
        (folder / f"{name}.tsv").write_text(rows)
