"""The record: every figure in Markdown with the command that prints it, run again and compared."""
