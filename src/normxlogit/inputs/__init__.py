"""Inputs: texts, chats, pictures, sounds and documents to encodings, and batches of encodings."""
