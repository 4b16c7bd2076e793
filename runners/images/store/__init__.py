"""The images folder: stored files and their names, images.lock, and what is in use."""
