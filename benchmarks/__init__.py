"""Benchmarks of what explanations cost, run from a checkout: `python -m benchmarks speed|memory|peers`."""
