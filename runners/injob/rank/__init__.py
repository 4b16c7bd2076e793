"""What each rank of a job runs inside the image, around its trainer, once per task.

In the order in which it happens:

1. `start` reads the shim's options and, from the launcher's variables, which rank this is (`task`).
   It refuses a node whose CPU or driver does not fit the image (`hardware`).
2. `supervise` opens the rendezvous of the ranks (`rendezvous/`) and forks: the parent is the shim,
   the child becomes the trainer.
3. The child, in `run_trainer`, sets the variables by which frameworks find GPUs and the other ranks
   (`visible_gpus`, `rank_environment`), and runs the trainer, or a program that starts it
   (`trainer_command`). Each Python from then on begins with `startup`.
4. In the trainer's processes `frameworks` wraps what creates a process group, and `gate` ends a
   process whose group is not the job's (`world_messages`). What watches the weights
   (`one_model/`) reports to the shim (`reports`).
5. Meanwhile the shim passes on output (`output`) and signals (`signals`), samples what the trainer
   uses (`usage/`), and sends all reports to rank 0. Its `referee` judges the process groups
   (`worlds`) and the weights (`one_model/`), and ends a job whose ranks train different models.
6. When the trainer has ended, the shim says why (`problems`), records a failure (`failures`), and
   ends with the rank's exit code.

Standard library only and Python 3.8 at least, because it also serves images that we did not
build. `runner launch` copies this folder into the run's folder: a job that waited for days in
the queue still runs the code that it was submitted with.
"""
