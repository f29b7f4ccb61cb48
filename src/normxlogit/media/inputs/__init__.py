"""Pictures and sounds as inputs."""
