"""Definition files of the images, the locks they install from, and the programs that build them."""
