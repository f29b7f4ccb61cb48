"""The model of most runs."""

import pytest

from .corpora import explainer


@pytest.fixture(scope="package")
def bert():
    return explainer()
