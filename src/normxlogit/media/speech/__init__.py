"""What is said in a sound."""
