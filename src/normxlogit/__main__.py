"""`python -m normxlogit`, the command line without its script on the path."""

from .cli import main

if __name__ == "__main__":
    main()
