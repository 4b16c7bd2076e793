"""What an image or an environment does on this machine's GPUs."""
