"""Exit codes of a job's own parts; docs/concepts/exit-codes.md lists all."""

EXIT_NOT_VERIFIED = 81  # the image is not the file that was launched
EXIT_WORLD_SIZE = 82  # the ranks are not one world of the job's size
EXIT_REFUSED = 89  # the node's CPU or driver does not fit the image
EXIT_HOST_MPI = 90  # the host's MPI does not work in the image
EXIT_STOPPED = 91  # stopped early, its checkpoint saved: as in recipes, and in the job's script
EXIT_NOT_STAGED = 92  # data or image did not get onto a node's disk
EXIT_NO_MODULE = 93  # the job's script could not load an environment module
EXIT_NOT_SERVED = 94  # no web server answered as it should
EXIT_DIFFERENT = 95  # the ranks train different models
EXIT_NOT_FOUND = 127  # as shells have it: no such program
