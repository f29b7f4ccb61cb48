"""How far pairs of units explain a model's answers, beside other surrogates with the same number of passes."""
