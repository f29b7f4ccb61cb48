"""Does an answer rest on its documents? Questions with and without the evidence."""
