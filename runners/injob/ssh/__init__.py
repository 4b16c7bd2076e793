"""An ssh for containers: it reaches the other nodes of the job, by steps of the job.

`around` runs on the node beside a command, `ask` is what the command finds as `ssh`. Both speak
through a socket in a folder that only the user can enter; nothing listens on a network.
"""
