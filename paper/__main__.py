"""`python -m paper`."""

from .cli import main

main()
