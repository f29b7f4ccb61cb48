"""Texts as their readers take them: when two are the same, and where words and sentences end."""
