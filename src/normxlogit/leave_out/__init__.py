"""Leave out and measure: what the model answers without a part of what it reads.

Units (words, sentences, spans, sources; regions of pictures, moments of sounds) are deleted, masked or filled, and a
measure is taken. `search` says what can be removed, and which of it a caller chose, removes units one at a time and
together, and looks for the smallest set that changes the prediction; its `Outcomes` ask for each set once, in batches.
"""
