"""The app, a page in the browser: fields for texts, models and methods, and their explanations."""
