"""As the tutorials' synthetic benchmark on CPUs: a small language model, tokens/s of all ranks."""

import argparse
import os
import time

import horovod.torch as hvd
import torch
from torch import nn


class TinyLM(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 2, 4 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1))
        return self.head(self.encoder(self.embedding(tokens), mask=mask, is_causal=True))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=32)
    parser.add_argument("--vocabulary", type=int, default=128)
    args = parser.parse_args()
    hvd.init()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(1 + hvd.rank())
    model = TinyLM(args.vocabulary, 32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    started = time.perf_counter()
    for _ in range(args.steps):
        tokens = torch.randint(args.vocabulary, (args.batch_size, args.sequence + 1))
        optimizer.zero_grad()
        logits = model(tokens[:, :-1]).flatten(0, 1)
        nn.functional.cross_entropy(logits, tokens[:, 1:].flatten()).backward()
        optimizer.step()
    mine = args.steps * args.batch_size * args.sequence / (time.perf_counter() - started)
    total = hvd.allreduce(torch.tensor(mine), op=hvd.Sum, name="rate").item()
    if hvd.rank() == 0:
        print("trained by", hvd.size(), "ranks,", f"{total:.0f} tokens/s", flush=True)


if __name__ == "__main__":
    main()
