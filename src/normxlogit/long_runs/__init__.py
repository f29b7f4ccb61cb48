"""What long runs of several wings stand on: tables of rows, and the identity of the model whose results are kept."""
