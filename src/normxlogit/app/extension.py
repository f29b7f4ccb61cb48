"""What the page in the browser adds."""

from ..extending import Extension

EXTENSION = Extension(commands={"app": "normxlogit.app.app_command:app"})
