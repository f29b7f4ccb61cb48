"""`python -m benchmarks`."""

from .commands import main

main()
