"""Methods that carry each token's share through the layers of a stock encoder."""
