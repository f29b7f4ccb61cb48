"""Taking a model apart and proving it. Knows neither tokenizers nor tasks."""
