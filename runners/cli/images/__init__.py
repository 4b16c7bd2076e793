"""Commands of the heading Images: build, move and verify them."""
