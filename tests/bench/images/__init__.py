"""What `make bench-images` runs: how the CPU image is packed, and what that costs at each start.

One image is unpacked and packed again in several forms; all of them, the unpacked folder and a
plain virtual environment with the same packages are then timed in turns.
"""
