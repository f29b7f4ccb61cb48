"""Shared set-up: no network, few threads, quiet libraries."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["COLORTERM"] = "truecolor"  # rich remembers a style as it was first drawn, for the whole process
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import pytest
import torch
import transformers

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # every worker has a core of its own
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Every test starts from the same random state."""
    torch.manual_seed(0)
