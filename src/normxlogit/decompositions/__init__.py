"""Methods that the paper compares with: decompositions of encoders, gradients, and linear models of perturbed texts."""
