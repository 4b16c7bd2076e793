"""Commands of the heading Runs: follow, compare and measure what was launched."""
