"""As the tutorials' DeepSpeed: its own launcher, ZeRO-1, a batch size for all ranks together."""

import argparse
import os

import deepspeed
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)  # the launcher gives it
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
world = torch.distributed.get_world_size()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
config = {
    "train_batch_size": 4 * world,
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
}
engine, *_ = deepspeed.initialize(args=args, model=model, config=config)
torch.manual_seed(torch.distributed.get_rank())
for _ in range(4):
    loss = engine(torch.randn(4, 8, device=engine.device)).square().mean()
    engine.backward(loss)
    engine.step()
engine.save_checkpoint(os.environ["OUTPUT_DIR"])  # each rank its part of the optimizer's state
if torch.distributed.get_rank() == 0:
    print("trained by", world, "of local rank", args.local_rank, flush=True)
torch.distributed.destroy_process_group()
