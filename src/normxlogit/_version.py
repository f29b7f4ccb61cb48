"""The library's version, without importing anything heavy."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("normxlogit")
except PackageNotFoundError:  # running from a source tree that is not installed
    __version__ = "0+unknown"
