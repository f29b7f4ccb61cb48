"""From a request to results."""
