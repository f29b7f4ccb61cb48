"""Tools of maintainers, run from a checkout."""
