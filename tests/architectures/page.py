"""docs/architectures.md, from what the survey found."""

import re
from pathlib import Path
from typing import Any

import transformers

from tests.architectures.base import MAPPINGS
from tests.architectures.known import PADDING, REFUSED, RESTING

PAGE = Path(__file__).parents[2] / "docs" / "architectures.md"

Results = dict[tuple[str, str], dict[str, Any]]

HEAD = """# Architectures

Every model class in the auto mappings of transformers {version}, built with random weights from a shrunk
configuration and checked. This page is written by

```console
$ python -m tests.architectures.survey
```

For each class the checks are, to 1e-4 (relative to the largest value, where that is above one):

1. the head cut off the model, on the trunk's output for a padded batch, gives the model's own logits;
2. where the model answers at every token, the head gives each token the model's logit there; where its head reads one
   position, the head on that position alone gives the model's output;
3. NormXLogit equals a plain loop over one text, token by token, with the norms from the model's own outputs;
4. the scores of `layers=ALL` are finite and the last layer's are the default ones.

The head on one token alone is read off the caller's whole model, the state of every position written over with that
token's. Weights are stirred until the model's answers to different texts differ by fifty times the tolerance.

*Frozen* says whether [the frozen network](methods/frozen-gradient.md) gives the model's own logits and is affine, on
one text, with eager attention. A dash: that check could not be run on these inputs, or needs a package.

<!-- generated: python -m tests.architectures.survey -->
"""

NOTES = """## What to know

- *Reads* says which positions the head takes; "the mean" and "some" are heads for which no single token's reading is
  the output.
- Encoder-decoder classifiers give the text to both sides. The scores read the decoder's states, position by position
  as the model's own head does, and take the norms from the encoder's embeddings.
- A trunk that pools (Funnel) has fewer states than tokens; a token takes the state that it is pooled into.
- A head that compares tokens with each other (Splinter's) is read in the text, not on one token.
- On transformers 5.5, the oldest that is supported, the same survey passes, but for four classes that it cannot run
  itself on these inputs (listed in `tests/architectures/known.py`).
"""


def render(results: Results) -> str:
    """The page."""
    parts = [HEAD.format(version=transformers.__version__), _summary(results), NOTES, *_reasons()]
    parts += [_table(task, results) for task in MAPPINGS]
    return "\n".join(parts)


def version_on_page() -> str:
    """Version of transformers that the page was written with."""
    found = re.search(r"transformers (\d[\w.]*),", PAGE.read_text(encoding="utf-8"))
    return found.group(1) if found else ""


def families_on_page(task: str) -> set[str]:
    """Families in the page's table of a mapping."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {MAPPINGS[task].title}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)`", section, re.M))


def not_frozen_on_page(task: str) -> set[str]:
    """Families in the page's table of a mapping whose frozen network does not hold or was not run."""
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {MAPPINGS[task].title}\n")[2].partition("\n## ")[0]
    return {family for family, held in re.findall(r"^\| `([^`]+)`.*\| ([^|]+) \|$", section, re.M) if held != "yes"}


def _summary(results: Results) -> str:
    lines = ["| Mapping | Classes | Exact | | Frozen | |", "|---|---|---|---|---|---|"]
    for task, mapping in MAPPINGS.items():
        own = [result for (name, _), result in results.items() if name == task]
        exact, frozen = (
            sum(holds) for holds in zip(*(("error" not in r, r["frozen"] == "yes") for r in own), strict=True)
        )
        shares = f"{exact} | {exact / len(own):.1%} | {frozen} | {frozen / len(own):.1%}"
        lines.append(f"| {mapping.title} | {len(own)} | {shares} |")
    return "\n".join(lines) + "\n"


def _reasons() -> list[str]:
    refused = []
    for task, own in REFUSED.items():
        for why in dict.fromkeys(own.values()):
            names = ", ".join(f"`{family}`" for family, reason in own.items() if reason == why)
            refused.append(f"- {MAPPINGS[task].title}: {names}: {why}.")
    layers = [f"- `{family}`: {why}." for family, why in RESTING.items()]
    padding = [f"- `{family}`: {why}." for family, why in PADDING.items()]
    return [
        "## What is refused, and why\n\n" + "\n".join(refused) + "\n",
        "## Layers at rest\n\nThe `hidden_states` of these cannot be brought to the head one by one. A layer's scores "
        "are read from a pass in which the later layers hand on what they are given, which costs a pass for each "
        "layer; layers count in the order in which the model runs them.\n\n" + "\n".join(layers) + "\n",
        "## Models whose answer changes with padding\n\nThis is found on the first texts of different lengths. From "
        "then on only texts of one length share a batch: a text has the same scores alone and among others.\n\n"
        + "\n".join(padding)
        + "\n",
    ]


def _table(task: str, results: Results) -> str:
    lines = [
        f"## {MAPPINGS[task].title}\n",
        "| Family | Class | Trunk | Reads | Layers | Frozen |",
        "|---|---|---|---|---|---|",
    ]
    for (name, family), result in sorted(results.items()):
        if name != task:
            continue
        if "error" in result:
            lines.append(f"| `{family}` | refused | | | | {result['frozen']} |")
            continue
        reads = "some" if " of " in result["reads"] else result["reads"]
        layers = "no" if not result["layers"] else "at rest" if result["resting"] else "yes"
        lines.append(
            f"| `{family}` | {result['class']} | `{result['trunk']}` | {reads} | {layers} | {result['frozen']} |"
        )
    return "\n".join(lines) + "\n"
