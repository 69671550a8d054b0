"""Writes a safetensors file with bytes that depend on nothing but its content.

The format's own library keeps the metadata in a hash map, whose order changes from run to run; here it is sorted.
Layout: u64 length | JSON padded with spaces to 8 bytes | tensors, widest type first, then by name.
"""

import json

import numpy as np

_TYPES = {np.dtype("float32"): "F32", np.dtype("int32"): "I32"}


def write(path, tensors, metadata):
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header, at = {"__metadata__": dict(sorted(metadata.items()))}, 0
    for name in order:
        tensor = tensors[name]
        header[name] = {
            "dtype": _TYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(np.ascontiguousarray(tensors[name]).tobytes())
