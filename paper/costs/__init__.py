"""What explanations cost, in time and memory."""
