"""Where the ranks of a Gloo job meet: Horovod's key-value store, kept by the job itself.

    Horovod -- HTTP, loopback --> its rank's store -- one proven link --> the hub of rank 0

`session` is the way in. The parent of each task keeps the `store`; rank 0's also the `hub`, which
consists of the `lobby` (connections), the `roll` (who is there) and the `exchange` (values).
`find` looks for the hub, `doors` are its addresses, `wire` is what both say, and `secret` what
keeps others out.

What remains open is Gloo's own: the sockets between ranks, which Horovod opens without any proof,
and everything in clear text. Root and the same user can read the secret.
"""
