"""Drawing pictures and sounds."""
