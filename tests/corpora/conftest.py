import pytest

from tests import tiny

from .corpora import explainer


@pytest.fixture(scope="package")
def bert():
    return explainer()


@pytest.fixture(scope="package", params=[None, tiny.CHAT_TEMPLATE])
def reader(request):
    return tiny.writer(template=request.param, name="reader")
