"""Results for a terminal, a page and a notebook."""
