"""Loading and running task models."""
