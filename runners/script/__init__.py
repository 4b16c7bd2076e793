"""Plan -> the text of the batch script, and the tokens that start ranks and containers."""
