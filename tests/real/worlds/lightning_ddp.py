"""Lightning: with its own detection of Slurm, or with `--ours` by the variables of each rank."""

import sys

import lightning
import torch
from lightning.fabric.plugins.environments import LightningEnvironment


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Ours(LightningEnvironment):
    @property
    def creates_processes_externally(self):
        return True


data = torch.utils.data.TensorDataset(torch.rand(32, 4))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=1,
    num_nodes=2,
    strategy="ddp",
    max_steps=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    plugins=[Ours()] if "--ours" in sys.argv else [],
)
trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=4))
total = torch.ones(1)
torch.distributed.all_reduce(total)
print("ranks", trainer.world_size, "sum", int(total), flush=True)
