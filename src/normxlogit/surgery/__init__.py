"""Taking a model apart, and proving each part; knows neither tokenizers nor tasks."""
