"""Pages of a summary: its cards, for terminals and as HTML."""
