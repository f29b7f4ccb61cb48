"""A package that adds a method to normxlogit."""

from normxlogit.extending import Extension

EXTENSION = Extension(methods=("normxlogit_distance.methods",))
