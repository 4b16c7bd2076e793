"""The doctor's short job: what each rank sees, and how fast and over what the ranks talk.

Runs inside any image: standard library of Python 3.8 or newer, and Horovod or torch.
The host side reads the same interfaces and ports with `interfaces`.
"""
