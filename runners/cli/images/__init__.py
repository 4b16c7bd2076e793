"""Commands of the heading Images: build, move, verify and sign them."""
