"""Where the ranks of a Gloo job meet: Horovod's key-value store, kept by the job itself.

    Horovod -- HTTP, loopback --> its rank's proxy -- one proven link --> the hub of rank 0

`session` is the way in. The parent of each task keeps the `proxy`, with a link to the hub; rank
0's also the `hub`: who is there, and who left what for whom (`roll`). `connections` serves both in
one thread each, and `protocol` is what they say to each other, and keeps others out.

What remains open is Gloo's own: the sockets between ranks, which Horovod opens without any proof,
and everything in clear text. Root and the same user can read the secret.
"""
