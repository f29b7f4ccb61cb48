"""Leave out and measure: what the model answers without a part of what it reads.

A set of units is removed in a stated way, and a measure is taken: `outcomes.Outcomes` is the table of both. It runs the
model in batches, asks each set once, keeps the order, and holds a bounded number of inputs in memory.

| units | removed by | measured |
|---|---|---|
| words, sentences, paragraphs, spans of characters | deleted, or masked (`removal`) | the prediction and the
  probability or value of the target (`answers`), the explained quantity (`methods.perturbation`), the logits |
| words and sources of a prompt | deleted | log-probabilities of the completion's tokens
  (`pipeline.completions.leave_out`) |
| words of two texts that are compared | deleted | the cosine (`similarity.pairs`) |
| regions of pictures | filled with the mean colour around them (`media`) | any of these |
| moments of sounds | silenced (`media`) | any of these |

`units` says what can be removed, and which of it a caller chose; `search` removes units one at a time and together, and
looks for the smallest set that changes the prediction.
"""
