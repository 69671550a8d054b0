"""The tiny models and their inputs. Every number comes from numpy's RandomState, whose streams are frozen for ever."""

import dataclasses
import json
import zlib

import numpy as np
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

# Of the first few, one whose gradients are not so near zero that AdamW makes a visible step of fp32 rounding.
SEED = 1
VOCABULARY, BATCH, TOKENS, STEPS = 67, 2, 16, 10
SHAPE = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=44,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=32,
    bos_token_id=1,
    eos_token_id=2,
)


@dataclasses.dataclass
class Case:
    name: str
    model: type
    config: object
    documents: list  # per row, the lengths of the documents packed into it

    def seed(self, what):
        return np.random.RandomState(zlib.crc32(f"{self.name}/{what}".encode()) ^ SEED)


def _rope(theta, **scaling):
    return {"rope_type": "default", "rope_theta": theta, **scaling}


WHOLE_ROWS = [[TOKENS]] * BATCH
CASES = [
    # tied, LayerNorm with bias, Conv1D weights [in, out], GELU tanh
    Case(
        "gpt2",
        GPT2LMHeadModel,
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=32,
            n_embd=32,
            n_layer=2,
            n_head=4,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            resid_pdrop=0.0,
            bos_token_id=1,
            eos_token_id=2,
        ),
        WHOLE_ROWS,
    ),
    # untied, grouped queries; of the four frequencies one is kept, one blended, two divided by `factor`
    Case(
        "llama3",
        LlamaForCausalLM,
        LlamaConfig(
            **{**SHAPE, "max_position_embeddings": 128},
            rms_norm_eps=1e-5,
            tie_word_embeddings=False,
            rope_parameters=_rope(
                500.0,
                rope_type="llama3",
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        WHOLE_ROWS,
    ),
    # tied, one key/value head, rows packed with documents: attention and positions restart at each
    Case(
        "llama_packed",
        LlamaForCausalLM,
        LlamaConfig(
            **{**SHAPE, "num_key_value_heads": 1},
            rms_norm_eps=1e-6,
            tie_word_embeddings=True,
            rope_parameters=_rope(10000.0),
        ),
        [[5, 1, 10], [7, 9]],
    ),
    # untied, bias on q, k, v only
    Case(
        "qwen2",
        Qwen2ForCausalLM,
        Qwen2Config(**SHAPE, rms_norm_eps=1e-6, tie_word_embeddings=False, rope_parameters=_rope(100.0)),
        WHOLE_ROWS,
    ),
    # tied, q/k norm, head_dim 16 where hidden / heads is 8
    Case(
        "qwen3",
        Qwen3ForCausalLM,
        Qwen3Config(
            **SHAPE, head_dim=16, rms_norm_eps=1e-6, tie_word_embeddings=True, rope_parameters=_rope(1000000.0)
        ),
        WHOLE_ROWS,
    ),
]


def initial(case, name, shape):
    """Norm weights around 1; biases and matrices so large that attention and gates are far from their linear start."""
    noise = case.seed(name).standard_normal(tuple(shape))
    if len(shape) == 1:
        return (0.2 * noise + (1.0 if name.endswith("weight") else 0.0)).astype(np.float32)
    scale = 0.3 if "wte" in name or "embed_tokens" in name else shape[-1] ** -0.5
    return (scale * noise).astype(np.float32)


def batches(case):
    """tokens, targets [STEPS, B, T]; a target is the next token, -1 at a document's end and at one in eight others."""
    draw = case.seed("tokens")
    stream = draw.randint(0, VOCABULARY, (STEPS, BATCH, TOKENS + 1)).astype(np.int32)
    tokens, targets = stream[..., :-1].copy(), stream[..., 1:].copy()
    targets[draw.uniform(size=targets.shape) < 0.125] = -1
    for row, lengths in enumerate(case.documents):
        if len(lengths) > 1:
            targets[:, row, np.cumsum(lengths) - 1] = -1
    return tokens, targets


def layout(case):
    """positions, document_start [B, T]: place within the document, and index in the row where that document starts."""
    start = np.zeros((BATCH, TOKENS), np.int32)
    for row, lengths in enumerate(case.documents):
        start[row] = np.repeat(np.cumsum([0] + lengths[:-1]), lengths)
    return np.arange(TOKENS, dtype=np.int32)[None] - start, start


def learning_rates():
    """A warm-up and a decay whose values fp32 holds exactly."""
    return np.array([1, 2, 3, 4, 4, 4, 3, 2, 1, 1], np.float32) / 1024


def older_config(text):
    """The same config.json as transformers 4 wrote it: rope_theta and rope_scaling side by side."""
    config = json.loads(text)
    config["torch_dtype"] = config.pop("dtype")
    rope = config.pop("rope_parameters", None)
    if rope is not None:
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = None if rope["rope_type"] == "default" else rope
    config["transformers_version"] = "4.46.0"
    return json.dumps(config, indent=2, sort_keys=True)
