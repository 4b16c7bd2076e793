"""Lightning with its defaults, which use one node."""

import lightning
import torch


class Line(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


data = torch.utils.data.TensorDataset(torch.rand(32, 4))
trainer = lightning.Trainer(accelerator="cpu", strategy="auto", max_steps=2, logger=False)
trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=4))
