"""The host side of the kit: plans, writes, submits and follows Horovod jobs in containers.

Imports click, spython and the standard library; never torch, tensorflow or horovod.
"""

__version__ = "0.1.0"
