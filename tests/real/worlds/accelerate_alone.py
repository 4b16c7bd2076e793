"""accelerate without its launcher: it takes the variables of each rank."""

import torch
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
total = accelerator.reduce(torch.ones(1))
print("ranks", accelerator.num_processes, "sum", int(total), flush=True)
