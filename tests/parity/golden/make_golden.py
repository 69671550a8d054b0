#!/usr/bin/env python3
"""Makes the golden files beside it. Usage: make_golden.py [FOLDER]; README.md says what is in them and how to run this.

The truth is transformers' model code run in double (truth.py) from parameters that fp32 holds exactly; what is
stored is that, rounded once to fp32. The same run in fp32 follows, and its distance from the truth is printed: what
a good fp32 implementation can reach.
"""

import contextlib
import json
import os
import sys

import numpy as np
import torch

import cases
import golden_file
import sample_configs
from truth import Doubled

MAX_NORM, BETAS, EPSILON, WEIGHT_DECAY = 1.0, (0.9, 0.95), 1e-8, 0.1
OPTIMIZER = json.dumps(
    {
        "name": "AdamW",
        "betas": BETAS,
        "eps": EPSILON,
        "weight_decay": WEIGHT_DECAY,
        "max_norm": MAX_NORM,
        "decayed": "parameters with 2 or more dimensions",
        "clip": "gradients *= min(1, max_norm / (norm + 1e-6))",
    }
)


def fp32(tensor):
    return tensor.detach().to(torch.float32).numpy().copy()


def adamw(parameters):
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]], lr=0.0, betas=BETAS, eps=EPSILON, foreach=False
    )


def update(parameters, optimizer, rate):
    """Clips, steps, and returns the norm before clipping."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_NORM, foreach=False)
    for group in optimizer.param_groups:
        group["lr"] = float(rate)
    optimizer.step()
    return norm


def mask_of(document_start, dtype):
    """[B, 1, T, T], 0 where a query may look: at keys of its own document, not after itself."""
    key, query = torch.arange(cases.TOKENS), torch.arange(cases.TOKENS)[:, None]
    seen = (key <= query) & (key >= torch.from_numpy(document_start)[:, :, None])
    return torch.where(seen, 0.0, torch.finfo(dtype).min)[:, None].to(dtype)


class Run:
    """One model of a case in one precision, from the case's first parameters."""

    def __init__(self, case, dtype):
        self.case, self.dtype = case, dtype
        self.mode = Doubled() if dtype is torch.float64 else contextlib.nullcontext()
        with self.mode:
            config = type(case.config).from_dict(case.config.to_dict())
            config._attn_implementation = "eager"
            self.model = case.model(config).to(dtype).eval()
        self.parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(torch.from_numpy(cases.initial(case, name, parameter.shape)))
        self.positions, self.document_start = cases.layout(case)

    def logits(self, tokens, positions=None, mask=None):
        with self.mode:
            return self.model(
                input_ids=torch.from_numpy(tokens).long(),
                use_cache=False,
                position_ids=torch.from_numpy(self.positions if positions is None else positions).long(),
                attention_mask=mask_of(self.document_start, self.dtype) if mask is None else mask,
            ).logits

    def backward(self, tokens, targets):
        """Mean over the targets that are not -1; gradients below are of this mean."""
        self.model.zero_grad()
        logits = self.logits(tokens)
        flat = torch.from_numpy(targets).long().flatten()
        total = torch.nn.functional.cross_entropy(logits.flatten(0, 1), flat, ignore_index=-1, reduction="sum")
        loss = total / (flat >= 0).sum()
        loss.backward()
        return logits, loss


def flush_noise(gradients):
    """What is zero by theory (GPT-2's key bias) is ~1e-17 in double and differs by machine: store the zero."""
    floor = 1e-14 * max(float(g.abs().max()) for g in gradients.values())
    for gradient in gradients.values():
        gradient[gradient.abs() < floor] = 0.0


def compute(case, dtype):
    """Every stored tensor of a case as float32 numpy."""
    run = Run(case, dtype)
    tokens, targets = cases.batches(case)
    out = {f"param/{name}": fp32(p) for name, p in run.parameters.items()}

    logits, loss = run.backward(tokens[0], targets[0])
    gradients = {name: p.grad.clone() for name, p in run.parameters.items()}
    if dtype is torch.float64:
        flush_noise(gradients)
    out |= {f"grad/{name}": fp32(g) for name, g in gradients.items()}
    norm = torch.sqrt(sum((g.double() ** 2).sum() for g in gradients.values()))
    out |= {"logits": fp32(logits), "loss": fp32(loss), "grad_norm": fp32(norm)}

    # One step from exactly the stored gradients, so that an optimizer can be checked apart from a model.
    alone = {
        name: torch.from_numpy(out[f"param/{name}"]).to(dtype, copy=True).requires_grad_() for name in run.parameters
    }
    for name, parameter in alone.items():
        parameter.grad = torch.from_numpy(out[f"grad/{name}"]).to(dtype, copy=True)
    rates = cases.learning_rates()
    update(list(alone.values()), adamw(alone.values()), rates[0])
    out |= {f"step1/{name}": fp32(p) for name, p in alone.items()}

    optimizer, losses, norms = adamw(run.parameters.values()), [], []
    for step in range(cases.STEPS):
        losses.append(fp32(run.backward(tokens[step], targets[step])[1]))
        norms.append(fp32(update(list(run.parameters.values()), optimizer, rates[step])))
    out |= {f"step10/{name}": fp32(p) for name, p in run.parameters.items()}
    return out | {"steps/loss": np.array(losses), "steps/grad_norm": np.array(norms)}


def check_documents(case, logits):
    """A packed document's logits are those of the same document alone in a row."""
    run, tokens = Run(case, torch.float64), cases.batches(case)[0][0]
    for row, lengths in enumerate(case.documents):
        for begin, length in zip(np.cumsum([0] + lengths[:-1]), lengths):
            alone = torch.triu(torch.full((length, length), torch.finfo(torch.float64).min, dtype=torch.float64), 1)
            own = run.logits(
                tokens[row : row + 1, begin : begin + length],
                np.arange(length, dtype=np.int32)[None],
                alone[None, None],
            )
            assert np.allclose(fp32(own)[0], logits[row, begin : begin + length], rtol=0, atol=1e-6), (
                case.name,
                row,
                begin,
            )


def check_gradient(case):
    """Along a random direction the loss changes as its gradient says. With h = 1e-5 a cast to float32 anywhere would
    show as about 1e-2; double from end to end agrees to better than 1e-6."""
    run, (tokens, targets), h = Run(case, torch.float64), cases.batches(case), 1e-5
    directions = {
        name: torch.from_numpy(case.seed("direction").standard_normal(tuple(p.shape)))
        for name, p in run.parameters.items()
    }
    run.backward(tokens[0], targets[0])
    slope = float(sum((p.grad * directions[name]).sum() for name, p in run.parameters.items()))
    losses = []
    for side in (h, -2 * h):
        with torch.no_grad():
            for name, parameter in run.parameters.items():
                parameter.add_(directions[name], alpha=side)
        losses.append(float(run.backward(tokens[0], targets[0])[1].detach()))
    difference = (losses[0] - losses[1]) / (2 * h)
    assert abs(difference - slope) <= 1e-6 * abs(slope) + 1e-8, (case.name, difference, slope)
    return abs(difference - slope) / abs(slope)


def furthest(found, truth):
    """The tensor that is furthest off, by max |a-b| / max |b|; those that are zero by theory are left out."""
    off = {
        name: np.abs(found[name] - truth[name]).max() / np.abs(truth[name]).max()
        for name in truth
        if np.abs(truth[name]).max() > 1e-6
    }
    name = max(off, key=off.get)
    return f"{off[name]:.1e} ({name})"


def make_model(case, folder):
    truth = compute(case, torch.float64)
    check_documents(case, truth["logits"])
    slope_off = check_gradient(case)
    single = compute(case, torch.float32)
    parts = {
        "logits, loss, gradients": ("logits", "loss", "grad"),
        "after step 1": ("step1/",),
        "ten losses, norms": ("steps/",),
        "after step 10": ("step10/",),
    }
    print(
        f"{case.name}: loss {truth['loss']:.6f}, norm {truth['grad_norm']:.6f}, norms {truth['steps/grad_norm'].round(3)}"
    )
    print(f"  gradient from a central difference: {slope_off:.1e}")
    for part, prefixes in parts.items():
        chosen = {name: value for name, value in truth.items() if name.startswith(prefixes)}
        print(f"  fp32 from the truth, {part}: {furthest(single, chosen)}")

    tokens, targets = cases.batches(case)
    positions, document_start = cases.layout(case)
    truth |= {
        "tokens": tokens[0],
        "targets": targets[0],
        "positions": positions,
        "document_start": document_start,
        "steps/tokens": tokens,
        "steps/targets": targets,
        "steps/lr": cases.learning_rates(),
    }
    config = sample_configs.text_of(case.config, case.model)
    golden_file.write(
        os.path.join(folder, f"{case.name}.safetensors"),
        truth,
        {"format": "pt", "config": config, "config_v4": cases.older_config(config), "optimizer": OPTIMIZER},
    )


def make_adamw(folder):
    """The optimizer alone over ten given gradients, with norms on both sides of the clip."""
    draw = np.random.RandomState(20240607)
    shapes = {"matrix": (7, 9), "vector": (13,), "untouched": (3, 5)}  # `untouched` has zero gradients: decay only
    out = {f"param/{name}": draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    scale = np.array([2.0, 0.05, 0.001, 1.0, 0.02, 3.0, 1e-6, 0.5, 0.1, 0.03])
    for name, shape in shapes.items():
        noise = draw.standard_normal((cases.STEPS, *shape)) * scale.reshape(-1, *[1] * len(shape))
        out[f"grad/{name}"] = (0.0 * noise if name == "untouched" else noise).astype(np.float32)
    parameters = {name: torch.from_numpy(out[f"param/{name}"]).double().requires_grad_() for name in shapes}
    optimizer, rates, norms = adamw(parameters.values()), cases.learning_rates(), []
    for step in range(cases.STEPS):
        for name, parameter in parameters.items():
            parameter.grad = torch.from_numpy(out[f"grad/{name}"][step]).double()
        norms.append(fp32(update(list(parameters.values()), optimizer, rates[step])))
        if step + 1 in (1, 2, cases.STEPS):
            for name, parameter in parameters.items():
                state = optimizer.state[parameter]
                out |= {
                    f"step{step + 1}/{name}": fp32(parameter),
                    f"step{step + 1}/m/{name}": fp32(state["exp_avg"]),
                    f"step{step + 1}/v/{name}": fp32(state["exp_avg_sq"]),
                }
    out |= {"steps/lr": rates, "steps/grad_norm": np.array(norms)}
    golden_file.write(os.path.join(folder, "adamw.safetensors"), out, {"format": "pt", "optimizer": OPTIMIZER})
    print(f"adamw: norms {out['steps/grad_norm']}")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for case in cases.CASES:
        make_model(case, folder)
    make_adamw(folder)
    sample_configs.make(os.path.join(folder, "configs"))


if __name__ == "__main__":
    main()
