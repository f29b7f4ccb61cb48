"""Documents and conversations as inputs."""
