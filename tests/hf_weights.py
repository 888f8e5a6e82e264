"""Puts the tensors of a Hugging Face checkpoint where the book's model has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from helpers.model_config import ModelConfig
from helpers.published_models import config_from

FOLDER = Path(__file__).parent / "data" / "transformers"
ARCHITECTURES = sorted(path.stem for path in FOLDER.glob("*.npz"))
_NORMS = {
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
    "query_norm": "self_attn.q_norm",
    "key_norm": "self_attn.k_norm",
}
_GEMMA2_NORMS = {
    "attention_norm": "input_layernorm",
    "attention_output_norm": "post_attention_layernorm",
    "mlp_norm": "pre_feedforward_layernorm",
    "mlp_output_norm": "post_feedforward_layernorm",
}


def stored(architecture: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The configuration of a golden model and its arrays."""
    with np.load(FOLDER / f"{architecture}.npz") as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("fields"))), arrays


def parameters_of(
    config: ModelConfig, tensors: dict[str, np.ndarray], norms: dict[str, str]
) -> dict[str, Any]:
    """The tree of parameters, from a checkpoint of the Llama kind."""
    heads, groups, size = config.heads, config.key_value_heads, config.head_size

    def layers(name: str) -> np.ndarray:
        names = [f"model.layers.{n}.{name}" for n in range(config.layers)]
        return np.stack([tensors[each] for each in names])

    def project(name: str, count: int) -> dict[str, np.ndarray]:
        weight = layers(f"self_attn.{name}.weight").transpose(0, 2, 1)
        found = {"weight": weight.reshape(*weight.shape[:2], count, size)}
        if config.attention_bias:
            bias = layers(f"self_attn.{name}.bias")
            found["bias"] = bias.reshape(-1, count, size)
        return found

    def weight(name: str) -> dict[str, np.ndarray]:
        return {"weight": layers(name)}

    out = layers("self_attn.o_proj.weight").transpose(0, 2, 1)
    layer = {
        "query": project("q_proj", heads),
        "key": project("k_proj", groups),
        "value": project("v_proj", groups),
        "output": {"weight": out.reshape(-1, heads, size, config.width)},
    }
    layer |= {ours: weight(f"{name}.weight") for ours, name in norms.items()}
    if config.experts:
        both = layers("mlp.experts.gate_up_proj").transpose(0, 1, 3, 2)
        gate, up = np.split(both, 2, axis=-1)
        down = layers("mlp.experts.down_proj").transpose(0, 1, 3, 2)
        router = layers("mlp.gate.weight").transpose(0, 2, 1)
        layer["router"] = {"weight": router}
    else:
        names = ("gate_proj", "up_proj", "down_proj")
        parts = [layers(f"mlp.{name}.weight").transpose(0, 2, 1) for name in names]
        gate, up, down = parts
    layer |= {"gate": {"weight": gate}, "up": {"weight": up}, "down": {"weight": down}}
    found = {
        "embedding": tensors["model.embed_tokens.weight"],
        "layers": layer,
        "final_norm": {"weight": tensors["model.norm.weight"]},
    }
    if not config.tied:
        found["unembedding"] = tensors["lm_head.weight"].T
    return found


def gpt2_parameters_of(
    config: ModelConfig, tensors: dict[str, np.ndarray]
) -> dict[str, Any]:
    """The tree of parameters, from a checkpoint of GPT-2."""

    def layers(name: str) -> np.ndarray:
        names = [f"transformer.h.{n}.{name}" for n in range(config.layers)]
        return np.stack([tensors[each] for each in names])

    def linear(name: str) -> dict[str, np.ndarray]:
        return {kind: layers(f"{name}.{kind}") for kind in ("weight", "bias")}

    heads = (config.heads, config.head_size)
    both = linear("attn.c_attn")
    cut = {kind: np.split(each, 3, axis=-1) for kind, each in both.items()}
    layer = {
        "attention_norm": linear("ln_1"),
        "mlp_norm": linear("ln_2"),
        "up": linear("mlp.c_fc"),
        "down": linear("mlp.c_proj"),
    }
    for place, name in enumerate(("query", "key", "value")):
        parts = {kind: each[place] for kind, each in cut.items()}
        layer[name] = {
            kind: part.reshape(*part.shape[:-1], *heads) for kind, part in parts.items()
        }
    out = linear("attn.c_proj")
    out["weight"] = out["weight"].reshape(-1, *heads, config.width)
    layer["output"] = out
    names = ("weight", "bias")
    return {
        "embedding": tensors["transformer.wte.weight"],
        "positions": tensors["transformer.wpe.weight"],
        "layers": layer,
        "final_norm": {kind: tensors[f"transformer.ln_f.{kind}"] for kind in names},
    }


def golden(architecture: str) -> tuple[ModelConfig, dict[str, Any], dict[str, Any]]:
    """A golden model: its shape, its parameters in the book's form, its arrays."""
    fields, arrays = stored(architecture)
    config = config_from(fields)
    if architecture == "GPT2LMHeadModel":
        return config, gpt2_parameters_of(config, arrays), arrays
    norms = dict(_NORMS)
    if not config.query_key_norm:
        del norms["query_norm"], norms["key_norm"]
    if config.output_norms:
        norms = _GEMMA2_NORMS
    return config, parameters_of(config, arrays, norms), arrays
