"""How fast training is: Horovod over Gloo and over MPI beside PyTorch's DDP, and what tunes it."""
