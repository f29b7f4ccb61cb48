"""What fine-tuning begins with: a small model in a folder, and sentences that are easy to tell apart."""

import json
import random

from tests import tiny


def base(tmp_path, family="bert", kind="MaskedLM"):
    return tiny.save(tmp_path / family, family, kind, scale=1.0)


def write_reviews(folder):
    """Write sentences whose label is whether they hold the word good."""
    rng = random.Random(0)
    folder.mkdir()
    for split, count in (("train", 160), ("validation", 40)):
        rows = []
        for _ in range(count):
            label = rng.randrange(2)
            words = [*rng.choices(["the", "movie", "cat", "plot", "is"], k=4), "good" if label else "bad"]
            rng.shuffle(words)
            rows.append({"sentence": " ".join(words), "label": label})
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
