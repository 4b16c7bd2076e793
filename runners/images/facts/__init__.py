"""What is in an image or an environment: its labels, and what running it tells."""
