"""Wing: results as figures of matplotlib."""
