#!/usr/bin/env python3
"""The peer of `troupe bench train`: PyTorch trains GPT-2 on this machine's CPU, a few steps at a time, on request.

A child process that the bench alternates with: it reads lines from stdin and answers each with one line of JSON on stdout.
  (start)   -> {"ready": true, "versions": ..., "options": ..., "parameters": N, "warm_up_s": [...]}
  run N     -> {"tokens_per_s": ..., "step_s": [N numbers], "cpu_s": [N numbers], "loss": ...}
               tokens_per_s is from the median step; cpu_s far below threads x step_s: others used the processors
  quit      -> ends; so does the end of stdin
Anything else -> {"error": ...}. One step = forward, backward, clip to norm 1, AdamW, on a fresh random batch. While it waits
for a line it uses no processor: idle OpenMP threads spin for about a millisecond, then sleep.
"""

import argparse
import json
import os
import statistics
import sys
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--channels", type=int, default=768)
    parser.add_argument(
        "--vocabulary", type=int, default=50257, help="as the published model; --pad-vocabulary rounds up"
    )
    parser.add_argument(
        "--pad-vocabulary", type=int, default=64, help="multiple that the embedding's rows are padded to"
    )
    parser.add_argument(
        "--dtype", choices=["fp32", "bf16"], default="fp32", help="bf16: autocast, fp32 master weights"
    )
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--attention", choices=["sdpa", "plain"], default="sdpa")
    parser.add_argument("--optimizer", choices=["fused", "foreach", "loop"], default="fused")
    parser.add_argument("--model", choices=["lean", "transformers"], default="lean")
    parser.add_argument("--warm-up", type=int, default=2, help="steps before the first answer")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


ARGUMENTS = options()
# Both are read once, when torch is loaded.
os.environ["OMP_NUM_THREADS"] = str(ARGUMENTS.threads)
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Block(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.attention = o.heads, o.attention
        self.ln_1, self.ln_2 = nn.LayerNorm(o.channels), nn.LayerNorm(o.channels)
        self.c_attn, self.c_proj = nn.Linear(o.channels, 3 * o.channels), nn.Linear(o.channels, o.channels)
        self.c_fc, self.c_out = nn.Linear(o.channels, 4 * o.channels), nn.Linear(4 * o.channels, o.channels)

    def attend(self, q, k, v):
        if self.attention == "sdpa":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        tokens = q.size(-2)
        future = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.transpose(-1, -2)) * q.size(-1) ** -0.5
        return scores.masked_fill(future, float("-inf")).softmax(-1) @ v

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.c_proj(self.attend(q, k, v).transpose(1, 2).reshape(B, T, C))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    """GPT-2 with nothing in it but its mathematics: tied embeddings, no dropout, no cache."""

    def __init__(self, o, rows):
        super().__init__()
        self.vocabulary = o.vocabulary
        self.wte, self.wpe = nn.Embedding(rows, o.channels), nn.Embedding(1024, o.channels)
        self.h = nn.ModuleList(Block(o) for _ in range(o.layers))
        self.ln_f = nn.LayerNorm(o.channels)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1), device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class FromTransformers(nn.Module):
    def __init__(self, o, rows):
        super().__init__()
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(
            vocab_size=rows,
            n_embd=o.channels,
            n_layer=o.layers,
            n_head=o.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
        )
        config._attn_implementation = "sdpa" if o.attention == "sdpa" else "eager"
        self.inner = GPT2LMHeadModel(config)

    def forward(self, tokens, targets):
        logits = self.inner(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Trainer:
    def __init__(self, o):
        self.o = o
        torch.manual_seed(o.seed)
        rows = -(-o.vocabulary // o.pad_vocabulary) * o.pad_vocabulary
        self.model = (Gpt2 if o.model == "lean" else FromTransformers)(o, rows)
        self.parameters = list(self.model.parameters())
        groups = [
            {"params": [p for p in self.parameters if p.ndim >= 2], "weight_decay": 0.1},
            {"params": [p for p in self.parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(
            groups, lr=3e-4, betas=(0.9, 0.95), fused=o.optimizer == "fused", foreach=o.optimizer == "foreach"
        )
        self.call = torch.compile(self.model) if o.mode == "compile" else self.model
        self.batches = torch.Generator().manual_seed(o.seed)

    def step(self):
        """Seconds, processor seconds of all threads, and loss of one step; drawing the batch is not counted."""
        o = self.o
        text = torch.randint(0, o.vocabulary, (o.batch, o.seq + 1), generator=self.batches)
        begin, begin_cpu = time.perf_counter(), time.process_time()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=o.dtype == "bf16"):
            loss = self.call(text[:, :-1], text[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - begin, time.process_time() - begin_cpu, float(loss.detach())

    def run(self, count):
        steps = [self.step() for _ in range(count)]
        seconds, cpu_seconds, losses = map(list, zip(*steps))
        return {
            "tokens_per_s": self.o.batch * self.o.seq / statistics.median(seconds),
            "step_s": seconds,
            "cpu_s": cpu_seconds,
            "loss": losses[-1],
        }


def versions():
    found = {
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "onednn": torch.backends.mkldnn.is_available(),
        "threads": torch.get_num_threads(),
    }
    if ARGUMENTS.model == "transformers":
        import transformers

        found["transformers"] = transformers.__version__
    return found


def main(make_trainer=Trainer, lines=sys.stdin):
    torch.set_num_threads(ARGUMENTS.threads)

    def answer(content):
        print(json.dumps(content), file=replies, flush=True)

    # Whatever the libraries print goes to stderr: stdout carries answers only.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    trainer = make_trainer(ARGUMENTS)
    warm_up = [trainer.step()[0] for _ in range(ARGUMENTS.warm_up)]
    answer(
        {
            "ready": True,
            "versions": versions(),
            "options": vars(ARGUMENTS),
            "parameters": sum(p.numel() for p in trainer.parameters),
            "warm_up_s": warm_up,
        }
    )
    for line in lines:
        words = line.split()
        if words == ["quit"]:
            return
        if len(words) == 2 and words[0] == "run" and words[1].isdigit() and int(words[1]) > 0:
            answer(trainer.run(int(words[1])))
        elif words:
            answer({"error": f"'{line.strip()}' is not a request: run N (N at least 1), or quit"})


if __name__ == "__main__":
    main()
