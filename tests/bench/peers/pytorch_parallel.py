#!/usr/bin/env python3
"""The peer of `troupe bench parallel`: PyTorch trains GPT-2 by several processes over gloo, DDP or FSDP2, a step at a time, on request.

Reads and answers what pytorch_train.py does, and takes its options; tokens_per_s is of all processes together. This process is rank 0
and starts the others, which get every line that it gets. A step of a process: its micro-batches with their gradients summed, reduced
once with the last one's backward, clip to norm 1, AdamW.
"""

import argparse
import os
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--ranks", type=int, default=2, help="processes, each with --threads threads")
parser.add_argument("--micro-batches", type=int, default=2, help="of a step and process, each of --batch sequences")
parser.add_argument("--parallel", choices=["ddp", "fsdp2"], default="ddp")
parser.add_argument(
    "--precision",
    choices=["autocast", "policy"],
    default="autocast",
    help="how --dtype bf16 is done: policy is FSDP2's own, whose gathers are bf16 too, sums in fp32",
)
parser.add_argument(
    "--sync", choices=["last", "each"], default="last", help="fsdp2: reduce with the last micro-batch, or with each"
)
PROGRAM = [sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
OWN, sys.argv[1:] = parser.parse_known_args()
RANK = int(os.environ.get("TROUPE_PEER_RANK", "0"))

import pytorch_train as base  # noqa: E402  (reads sys.argv, sets OMP_NUM_THREADS before torch is loaded)
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402


class ParallelTrainer(base.Trainer):
    def __init__(self, o):
        super().__init__(o)
        self.batches = torch.Generator().manual_seed(o.seed + RANK)
        self.bf16_by_autocast = o.dtype == "bf16" and OWN.precision == "autocast"
        if OWN.parallel == "ddp":
            self.replica = nn.parallel.DistributedDataParallel(self.call, gradient_as_bucket_view=True)
            return
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy()
        if o.dtype == "bf16" and OWN.precision == "policy":
            policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        mesh = dist.device_mesh.init_device_mesh("cpu", (OWN.ranks,))
        for block in self.model.h:
            fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
        fully_shard(self.model, mesh=mesh, mp_policy=policy, reshard_after_forward=True)
        self.parameters = list(self.model.parameters())  # now this rank's parts
        decayed = [p for p in self.parameters if p.ndim >= 2]
        self.optimizer = torch.optim.AdamW(
            [
                {"params": decayed, "weight_decay": 0.1},
                {"params": [p for p in self.parameters if p.ndim < 2], "weight_decay": 0.0},
            ],
            lr=3e-4,
            betas=(0.9, 0.95),
            fused=o.optimizer == "fused",
            foreach=o.optimizer == "foreach",
        )

    def forward_backward(self, text, last):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=self.bf16_by_autocast):
            loss = (self.replica if OWN.parallel == "ddp" else self.call)(text[:, :-1], text[:, 1:])
        if OWN.parallel == "fsdp2":
            self.model.set_requires_gradient_sync(last or OWN.sync == "each")
        (loss / OWN.micro_batches).backward()
        return loss

    def step(self):
        """As of the one process: seconds, processor seconds of this one, loss of the last micro-batch."""
        o = self.o
        texts = [
            torch.randint(0, o.vocabulary, (o.batch, o.seq + 1), generator=self.batches) for _ in range(OWN.micro_batches)
        ]
        dist.barrier()
        begin, begin_cpu = base.time.perf_counter(), base.time.process_time()
        for i, text in enumerate(texts):
            last = i + 1 == len(texts)
            if OWN.parallel == "ddp" and not last:
                with self.replica.no_sync():
                    loss = self.forward_backward(text, last)
            else:
                loss = self.forward_backward(text, last)
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        dist.barrier()
        return base.time.perf_counter() - begin, base.time.process_time() - begin_cpu, float(loss.detach())

    def run(self, count):
        answer = super().run(count)
        answer["tokens_per_s"] *= OWN.ranks * OWN.micro_batches
        return answer


class ToAll:
    """Lines of stdin, each handed on to the other ranks before it is acted on."""

    def __init__(self, ranks):
        self.ranks = ranks

    def __iter__(self):
        for line in sys.stdin:
            for rank in self.ranks:
                rank.stdin.write(line)
                rank.stdin.flush()
            yield line
        for rank in self.ranks:
            rank.stdin.close()


def main():
    ranks = []
    meeting = os.environ.get("TROUPE_PEER_MEETING")
    folder = None
    if RANK == 0:
        folder = tempfile.TemporaryDirectory()
        meeting = os.path.join(folder.name, "meeting")
        for rank in range(1, OWN.ranks):
            environment = dict(os.environ, TROUPE_PEER_RANK=str(rank), TROUPE_PEER_MEETING=meeting)
            ranks.append(
                subprocess.Popen(PROGRAM, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
            )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=RANK, world_size=OWN.ranks)
    vars(base.ARGUMENTS).update(vars(OWN))  # what the first answer tells
    base.main(ParallelTrainer, ToAll(ranks) if RANK == 0 else sys.stdin)
    for rank in ranks:
        if not rank.stdin.closed:
            rank.stdin.close()
        rank.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
