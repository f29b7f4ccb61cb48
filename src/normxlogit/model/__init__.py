"""The session of a model: its copy at one moment, batches, forward passes, and their limits."""
