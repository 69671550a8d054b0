"""config.json samples of published models, written by transformers' own classes, with the parameter count of each."""

import json
import os

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

import cases


def _llama3(**sizes):
    scaling = sizes.pop("factor", None)
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    if scaling is not None:
        rope |= {
            "rope_type": "llama3",
            "factor": scaling,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        }
    fixed = dict(
        vocab_size=128256,
        num_key_value_heads=8,
        rms_norm_eps=1e-5,
        bos_token_id=128000,
        eos_token_id=128001,
        max_position_embeddings=8192 if scaling is None else 131072,
        rope_parameters=rope,
    )
    return LlamaForCausalLM, LlamaConfig(**fixed, **sizes)


def _qwen(model, config, **sizes):
    fixed = dict(
        vocab_size=151936,
        bos_token_id=151643,
        eos_token_id=151643,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    )
    return model, config(**{**fixed, **sizes})


def _samples():
    return {
        "gpt2-124m": (GPT2LMHeadModel, GPT2Config()),
        "gpt2-350m": (GPT2LMHeadModel, GPT2Config(n_embd=1024, n_layer=24, n_head=16)),
        "gpt2-774m": (GPT2LMHeadModel, GPT2Config(n_embd=1280, n_layer=36, n_head=20)),
        "gpt2-1558m": (GPT2LMHeadModel, GPT2Config(n_embd=1600, n_layer=48, n_head=25)),
        "llama2-7b": (LlamaForCausalLM, LlamaConfig(max_position_embeddings=4096, rms_norm_eps=1e-5)),
        "llama2-70b": (
            LlamaForCausalLM,
            LlamaConfig(
                hidden_size=8192,
                intermediate_size=28672,
                num_hidden_layers=80,
                num_attention_heads=64,
                num_key_value_heads=8,
                max_position_embeddings=4096,
                rms_norm_eps=1e-5,
            ),
        ),
        "llama3-8b": _llama3(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32),
        "llama3-70b": _llama3(
            hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64
        ),
        "llama3.1-405b": _llama3(
            hidden_size=16384, intermediate_size=53248, num_hidden_layers=126, num_attention_heads=128, factor=8.0
        ),
        "llama3.2-1b": _llama3(
            hidden_size=2048,
            intermediate_size=8192,
            num_hidden_layers=16,
            num_attention_heads=32,
            head_dim=64,
            tie_word_embeddings=True,
            factor=32.0,
        ),
        "qwen2-0.5b": _qwen(
            Qwen2ForCausalLM,
            Qwen2Config,
            hidden_size=896,
            intermediate_size=4864,
            num_hidden_layers=24,
            num_attention_heads=14,
            num_key_value_heads=2,
            tie_word_embeddings=True,
            max_position_embeddings=131072,
        ),
        "qwen2-7b": _qwen(
            Qwen2ForCausalLM,
            Qwen2Config,
            hidden_size=3584,
            intermediate_size=18944,
            num_hidden_layers=28,
            num_attention_heads=28,
            num_key_value_heads=4,
            vocab_size=152064,
            max_position_embeddings=131072,
        ),
        "qwen3-0.6b": _qwen(
            Qwen3ForCausalLM,
            Qwen3Config,
            hidden_size=1024,
            intermediate_size=3072,
            num_hidden_layers=28,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            tie_word_embeddings=True,
            max_position_embeddings=40960,
        ),
        "qwen3-8b": _qwen(
            Qwen3ForCausalLM,
            Qwen3Config,
            hidden_size=4096,
            intermediate_size=12288,
            num_hidden_layers=36,
            num_attention_heads=32,
            num_key_value_heads=8,
            head_dim=128,
            max_position_embeddings=40960,
        ),
    }


def text_of(config, model, dtype="float32"):
    """What save_pretrained writes."""
    content = type(config).from_dict(config.to_dict())
    content.architectures = [model.__name__]
    content.dtype = dtype
    return content.to_json_string()


def make(folder):
    os.makedirs(folder, exist_ok=True)
    counts = {}
    for name, (model, config) in _samples().items():
        text = text_of(config, model, "float32" if name.startswith("gpt2") else "bfloat16")
        with open(os.path.join(folder, f"{name}.json"), "w") as file:
            file.write(text)
        if name.startswith(("llama3.", "qwen3-0")):
            with open(os.path.join(folder, f"{name}.v4.json"), "w") as file:
                file.write(cases.older_config(text) + "\n")
        with torch.device("meta"):
            counts[name] = sum(p.numel() for p in model(config).parameters())
    with open(os.path.join(folder, "parameters.json"), "w") as file:
        json.dump(counts, file, indent=2, sort_keys=True)
        file.write("\n")
