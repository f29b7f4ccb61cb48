"""Wing: pairs of units: what two words or sentences do together, beside what each does alone."""
