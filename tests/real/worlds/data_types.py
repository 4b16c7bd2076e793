"""bfloat16 and 8-bit integers in 2, 3 and 4 ranks: exchanged, reduced and rounded as by PyTorch."""

from __future__ import annotations

import horovod.torch as hvd
import torch

BFLOAT16 = torch.bfloat16
EVERY = torch.arange(-32768, 32768, dtype=torch.int16).view(BFLOAT16)  # all 65,536 patterns
FINITE = EVERY[EVERY.isfinite()]
sets = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([0, 1, 2])]
hvd.init(process_sets=sets)
rank = hvd.rank()


def assert_same(value: torch.Tensor, expected: torch.Tensor) -> None:
    """Compare bits, except that any NaN equals any other."""
    nan = expected.isnan()
    assert value.dtype == expected.dtype
    assert torch.equal(value.isnan(), nan)
    assert torch.equal(value[~nan].view(torch.int16), expected[~nan].view(torch.int16))


def rounding(two: hvd.ProcessSet) -> None:
    """Two ranks round once, as PyTorch does."""
    for number, factor in enumerate((0, -1, 2**-8, 3 * 2**-9, 2**-7 + 2**-9)):
        for reduced, terms in (
            ("sum", EVERY),
            ("product", EVERY),
            ("min", FINITE),
            ("max", FINITE),
        ):
            other = (terms.float() * factor).to(BFLOAT16)
            mine = terms if two.rank() == 0 else other
            op = getattr(hvd, reduced.capitalize())
            value = hvd.allreduce(mine, op=op, name=f"{reduced} {number}", process_set=two)
            a, b = terms.float(), other.float()
            known = {"sum": a + b, "product": a * b, "min": a.min(b), "max": a.max(b)}
            zero = 0 if terms is FINITE else -0.0  # of 0 and -0 either is the minimum
            assert_same(value + zero, known[reduced].to(BFLOAT16) + zero)
    mine = EVERY if two.rank() == 0 else torch.zeros_like(EVERY)
    for factor in (1 + 2**-8, 1 - 2**-9, 1 / 3):
        scaled = (EVERY.float() * torch.tensor(factor)).to(BFLOAT16)
        scales = {"prescale_factor": factor}, {"postscale_factor": factor}
        for number, scale in enumerate(scales):
            name = f"{factor} {number}"
            value = hvd.allreduce(mine, op=hvd.Sum, name=name, process_set=two, **scale)
            assert_same(value + 0, scaled + 0)  # 0 and -0 add up to 0


def reductions(group: hvd.ProcessSet) -> None:
    """Sums of N ranks are within N times 2**-8 of those in float32."""
    size = group.size()
    terms = [torch.randn(1003, generator=torch.Generator().manual_seed(r)) for r in range(size)]
    terms = [term.to(BFLOAT16) for term in terms]
    stacked = torch.stack(terms).float()
    mine, total, error = terms[rank], stacked.sum(0), size * 2**-8 * stacked.abs().sum(0)

    def check(value: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor) -> None:
        assert bool(((value.float() - expected).abs() <= allowed).all())

    def reduce(name: str, op: int, **options: object) -> torch.Tensor:
        value = hvd.allreduce(mine, op=op, name=f"{name} {size}", process_set=group, **options)
        assert value.dtype == BFLOAT16
        return value

    check(reduce("sum", hvd.Sum), total, error)
    check(reduce("average", hvd.Average), total / size, error / size)
    check(
        reduce("scaled", hvd.Sum, prescale_factor=0.5, postscale_factor=4.0), 2 * total, 2 * error
    )
    assert torch.equal(reduce("min", hvd.Min).float(), stacked.min(0).values)
    assert torch.equal(reduce("max", hvd.Max).float(), stacked.max(0).values)
    product = stacked.prod(0)
    check(reduce("product", hvd.Product), product, size * 2**-8 * product.abs() + 2**-100)
    pair = hvd.grouped_allreduce(
        [mine, mine[:5]], op=hvd.Sum, name=f"two {size}", process_set=group
    )
    check(pair[0], total, error)
    check(pair[1], total[:5], error[:5])
    rows = 1000 // size * size
    part = hvd.reducescatter(mine[:rows], op=hvd.Sum, name=f"part {size}", process_set=group)
    own = slice(rank * rows // size, (rank + 1) * rows // size)
    check(part, total[own], error[own])
    packed = hvd.allreduce(
        stacked[rank],
        op=hvd.Sum,
        name=f"packed {size}",
        compression=hvd.Compression.bf16,
        process_set=group,
    )
    assert packed.dtype == torch.float32
    check(packed, total, error)
    for kind in (torch.uint8, torch.int8):
        ones = torch.arange(50).remainder(7).to(kind)
        for op, expected in ((hvd.Sum, ones * size), (hvd.Max, ones), (hvd.Product, ones**size)):
            name = f"{kind} {op} {size}"
            assert torch.equal(hvd.allreduce(ones, op=op, name=name, process_set=group), expected)


def others(group: hvd.ProcessSet) -> None:
    """What moves values keeps every pattern."""
    size, rolled = group.size(), EVERY.roll(rank)
    rows = hvd.allgather(rolled, name=f"rows {size}", process_set=group)
    assert_same(rows, torch.cat([EVERY.roll(source) for source in range(size)]))
    root = hvd.broadcast(rolled, root_rank=1, name=f"root {size}", process_set=group)
    assert_same(root, EVERY.roll(1))
    length = len(EVERY) // size
    mine = rolled[: length * size]
    parts = hvd.alltoall(mine, name=f"parts {size}", process_set=group)
    own = [EVERY.roll(source)[rank * length : (rank + 1) * length] for source in range(size)]
    assert_same(parts, torch.cat(own))


def training() -> None:
    """A model in bfloat16 learns with equal weights, from other data on each rank."""
    torch.manual_seed(rank)
    model = torch.nn.Linear(8, 3, dtype=BFLOAT16)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 8, dtype=BFLOAT16)).square().sum().backward()
        optimizer.step()
    weights = hvd.allgather(model.weight.data[None], name="weights")
    assert all(torch.equal(weight, weights[0]) for weight in weights)


def adasum() -> None:
    """Adasum of bfloat16 is that of float32, rounded at each of two steps."""
    mine = torch.randn(2000, generator=torch.Generator().manual_seed(rank)).to(BFLOAT16)
    exact = hvd.allreduce(mine.float(), op=hvd.Adasum, name="adasum of float32")
    value = hvd.allreduce(mine, op=hvd.Adasum, name="adasum")
    assert float((value.float() - exact).norm() / exact.norm()) < 2**-7


groups = [group for group in (*sets, hvd.global_process_set) if group.included()]
if sets[0].included():
    rounding(sets[0])
for group in groups:
    reductions(group)
    others(group)
training()
if hvd.mpi_enabled():
    adasum()
print("reduced", flush=True)
