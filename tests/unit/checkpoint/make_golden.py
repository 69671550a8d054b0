#!/usr/bin/env python3
"""Writes golden.safetensors with the reference library (made with safetensors 0.8.0): pip install safetensors torch numpy,
then run in this folder. safetensors_test.cc expects these values.
"""
import torch
from safetensors.torch import save_file

save_file(
    {
        "model.norm.weight": torch.tensor([1.0, -2.0, 0.5], dtype=torch.bfloat16),
        "model.embed_tokens.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4,
        "empty": torch.zeros((0, 3), dtype=torch.float32),
        "scalar": torch.tensor(-7, dtype=torch.int64),
        'größe "q"\n': torch.tensor([1, 2, 255], dtype=torch.uint8),
        "f64": torch.tensor([0.1], dtype=torch.float64),
        "i32": torch.tensor([[5, -5]], dtype=torch.int32),
    },
    "golden.safetensors",
    metadata={"format": "pt"},
)
