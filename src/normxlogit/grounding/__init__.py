"""Wing: the documents, messages and conversations that an answer rests on, and what it says that they do not."""
