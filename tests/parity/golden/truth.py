"""Runs transformers' own model code wholly in double precision.

The library's models cast to float32 by name inside RMSNorm, softmax and RoPE, so `model.double()` alone is not a double
computation. Under `Doubled` every mention of float32 becomes float64: the code that runs is the library's, only its
precision changes.
"""

import torch
from torch.overrides import TorchFunctionMode


def _widen(value):
    return torch.float64 if value is torch.float32 else value


class Doubled(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        keywords = {name: _widen(value) for name, value in (keywords or {}).items()}
        return function(*map(_widen, arguments), **keywords)

    def __enter__(self):
        torch.set_default_dtype(torch.float64)
        return super().__enter__()

    def __exit__(self, *failure):
        torch.set_default_dtype(torch.float32)
        return super().__exit__(*failure)
