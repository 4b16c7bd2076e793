"""Where the ranks of a Gloo job meet: Horovod's key-value store, kept by the job itself.

    Horovod -- HTTP, loopback --> its rank's store -- one proven link --> the hub of rank 0

`session` is the way in. The parent of each task keeps the `store`, with a link to the hub; rank
0's also the hub (`server`): who is there, and who left what for whom (`roll`).
`connections` has the hub's addresses, and `protocol` is what both sides say, and keeps others out.

What remains open is Gloo's own: the sockets between ranks, which Horovod opens without any proof,
and everything in clear text. Root and the same user can read the secret.
"""
