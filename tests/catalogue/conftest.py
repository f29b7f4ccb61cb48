import pytest

from .shop import fill


@pytest.fixture(scope="package")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    fill(folder)
    return folder


@pytest.fixture
def there(shop, monkeypatch):
    """The folder, to work in; its files, whose names and sizes must stay."""
    monkeypatch.chdir(shop)
    return shop
