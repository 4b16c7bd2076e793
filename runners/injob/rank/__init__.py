"""What runs inside the image, around the trainer, once per task.

Standard library only and Python 3.8 at least, because it also serves images that we did not
build. `runner launch` copies this folder into the run's folder: a job that waited for days in
the queue still runs the code that it was submitted with.
"""
