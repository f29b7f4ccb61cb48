"""A package that adds a kind of input to normxlogit: series of numbers."""

from normxlogit.extending import AddedTask, Extension, ModelClasses

SERIES = AddedTask("series-classification", "normxlogit_series.tasks:SeriesClassification", ModelClasses(plain=True))

EXTENSION = Extension(tasks=(SERIES,), media={"series": "normxlogit_series.medium:SeriesScores"})
