"""As the tutorials' Lightning 1: pytorch_lightning's Trainer with strategy="horovod"."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class LitMNIST(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(28 * 28, 10)

    def forward(self, x):
        return self.layer(x.view(x.size(0), -1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main():
    data = TensorDataset(torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,)))
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        strategy="horovod",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(LitMNIST(), DataLoader(data, batch_size=8))
    if trainer.is_global_zero:
        print("trained by", trainer.world_size, flush=True)


if __name__ == "__main__":
    main()
