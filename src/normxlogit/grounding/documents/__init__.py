"""Documents, conversations and traces as inputs."""
