"""Names that calls and the command line choose among, without an import: how texts are divided, and words merged."""

from typing import Literal

SourceKind = Literal["word", "sentence", "paragraph", "message"]
"""What a prompt is divided into."""

PartKind = Literal["token", "word", "sentence", "paragraph", "all"]
"""What an answer is divided into."""

Merge = Literal["sum", "max", "mean", "first"]
"""How token scores are combined to the score of a word, or of another coarser unit."""
