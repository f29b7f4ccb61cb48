"""What another package adds: series of numbers as inputs of modules, and a text task with outputs of its own."""

from normxlogit.extending import AddedTask, Extension, ModelClasses

SERIES = AddedTask("series-classification", "normxlogit_series.tasks:SeriesClassification", ModelClasses(plain=True))
GRADES = AddedTask("grading", "normxlogit_series.tasks:Grading", ModelClasses(plain=True))

EXTENSION = Extension(tasks=(SERIES, GRADES), media={"series": "normxlogit_series.medium:SeriesScores"})
