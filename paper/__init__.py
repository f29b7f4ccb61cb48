"""The experiments of the paper, run from a checkout: `python -m paper --list` names them all."""
