"""Measurements that run from a checkout: what explanations cost, and methods beside each other and other packages."""
