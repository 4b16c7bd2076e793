"""As the tutorials' Hydra: settings in conf/config.yaml, changed on the command line."""

import os

import horovod.torch as hvd
import hydra
import torch
from omegaconf import DictConfig, OmegaConf


@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    hvd.init()
    torch.manual_seed(config.seed + hvd.rank())
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=config.optimizer.lr * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(config.steps):
        optimizer.zero_grad()
        model(torch.randn(config.batch_size, 8)).square().mean().backward()
        optimizer.step()
    if hvd.rank() == 0:
        OmegaConf.save(config, os.path.join(os.environ["OUTPUT_DIR"], "config.yaml"))
        whole = config.batch_size * hvd.size()
        print(
            "trained by", hvd.size(), "with batches of", config.batch_size, "and", whole, flush=True
        )


if __name__ == "__main__":
    main()
