"""The page in a browser: texts, models and methods typed in, explanations drawn as everywhere else."""
