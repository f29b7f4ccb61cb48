"""Wing: pictures, sounds and speech."""
