"""How many examples are tried: the same few at every run, or many new ones with HYPOTHESIS_PROFILE=long."""

import os

from hypothesis import HealthCheck, settings

COMMON = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}

settings.register_profile("few", max_examples=3, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=100, print_blob=True, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))
