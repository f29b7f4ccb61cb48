"""Results to blocks, one file for a kind of what is explained."""
