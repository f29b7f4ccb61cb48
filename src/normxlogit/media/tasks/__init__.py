"""Tasks that read pictures or sounds."""
