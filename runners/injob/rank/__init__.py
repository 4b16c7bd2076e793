"""What runs inside the image, around the trainer, once per task.

Standard library only and Python 3.8 at least, because it also serves images that we did not
build. `runner launch` copies this folder into the run's folder: a job that waited for days in
the queue still runs the code that it was submitted with.
"""

EXIT_HOST_MPI = 90  # the host's MPI does not work in the image
EXIT_DIFFERENT = 95  # the ranks train different models
EXIT_STOPPED = 91  # stopped early, its checkpoint saved: as in recipes, and in the job's script
# The frameworks whose worlds the gate checks
HOROVOD, TORCH, TENSORFLOW, MPI = "Horovod", "torch.distributed", "tf.distribute", "mpi4py"
FRAMEWORKS = (HOROVOD, TORCH, TENSORFLOW, MPI)
