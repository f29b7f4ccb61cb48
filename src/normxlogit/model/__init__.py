"""The model in use: its copies at one moment, its batches, its forward passes and their limits."""
