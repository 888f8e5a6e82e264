"""Reads the shape of a published model from its ``config.json``.

What a file says beyond the fields read here either changes nothing that the book
computes (dropout, token ids, the type it was stored in) or is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from helpers.model_config import ModelConfig

__all__ = ["ARCHITECTURES", "config_from", "read_config"]

# Fields that a file must have, by the name of Hugging Face; and ours.
_SIZES = {
    "vocab_size": "vocabulary",
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "num_attention_heads": "heads",
    "intermediate_size": "feed_forward",
}
_GPT2_SIZES = {
    "vocab_size": "vocabulary",
    "n_embd": "width",
    "n_layer": "layers",
    "n_head": "heads",
    "n_positions": "positions",
}
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_new": "gelu",
    # Gemma's first files say gelu and mean the tanh form, as their code says.
    "gelu": "gelu",
}
# What an architecture fixes without a field.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": {},
    "MistralForCausalLM": {},
    "MixtralForCausalLM": {},
    "GemmaForCausalLM": {"norm_offset": True, "scale_embedding": True, "tied": True},
    "Gemma2ForCausalLM": {
        "norm_offset": True,
        "scale_embedding": True,
        "tied": True,
        "output_norms": True,
    },
    "Qwen2ForCausalLM": {"attention_bias": True},
    "Qwen3ForCausalLM": {"query_key_norm": True},
    "Qwen3MoeForCausalLM": {"query_key_norm": True},
    "GPT2LMHeadModel": {},
}
_GEMMA = ("GemmaForCausalLM", "Gemma2ForCausalLM")


def _field(fields: Mapping[str, Any], name: str, *default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        if default and default[0] is not None:
            return default[0]
        raise ValueError(
            f"expected the field {name!r} in the configuration, found none"
        )
    return value


def _refuse(fields: Mapping[str, Any], name: str, only: Any, why: str) -> None:
    """Refuses a field that would change the model in a way that is not built here."""
    value = fields.get(name)
    if value is not None and value != only:
        raise ValueError(f"expected {name} {only!r} ({why}), got {value!r}")


def config_from(fields: Mapping[str, Any]) -> ModelConfig:
    """Reads the fields of a Hugging Face configuration.

    Frequencies scaled for longer contexts (``rope_scaling``) and windows of attention
    change neither parameters nor shapes and are left out.

    Args:
        fields: The content of a ``config.json``.

    Returns:
        The model's shape.

    Raises:
        ValueError: If the architecture is unknown, a field is missing, or one asks for
            what is not built here.
    """
    if not isinstance(fields, Mapping):
        raise ValueError(f"expected the fields of a config.json, got {fields!r}")
    named = _field(fields, "architectures")
    if not isinstance(named, list) or len(named) != 1 or named[0] not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ValueError(f"expected architectures to be one of {known}, got {named!r}")
    if named[0] == "GPT2LMHeadModel":
        return _gpt2(fields)
    return _llama_like(named[0], fields)


def _activation(fields: Mapping[str, Any], *names: str) -> str:
    given = next((fields[name] for name in names if fields.get(name)), None)
    if given not in _ACTIVATIONS:
        raise ValueError(
            f"expected {names[0]} among {', '.join(_ACTIVATIONS)}, got {given!r}"
        )
    return _ACTIVATIONS[given]


def _gpt2(fields: Mapping[str, Any]) -> ModelConfig:
    sizes = {ours: _size(fields, theirs) for theirs, ours in _GPT2_SIZES.items()}
    width, heads = sizes["width"], sizes["heads"]
    return ModelConfig(
        **sizes,
        key_value_heads=heads,
        head_size=width // heads,
        feed_forward=_field(fields, "n_inner", 4 * width),
        activation=_activation(fields, "activation_function"),
        norm_epsilon=_field(fields, "layer_norm_epsilon", 1e-5),
        tied=_field(fields, "tie_word_embeddings", True),
        biases=True,
        layer_norm=True,
        gated=False,
    )


def _size(fields: Mapping[str, Any], name: str) -> int:
    value = _field(fields, name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"expected {name} to be a whole number >= 1, got {value!r}")
    return value


def _llama_like(architecture: str, fields: Mapping[str, Any]) -> ModelConfig:
    gemma = architecture in _GEMMA
    found = {ours: _size(fields, theirs) for theirs, ours in _SIZES.items()}
    heads = found["heads"]
    found["key_value_heads"] = _field(fields, "num_key_value_heads", heads)
    found["head_size"] = _field(fields, "head_dim", found["width"] // heads)
    rope = fields.get("rope_parameters") or {}
    base = _field(fields, "rope_theta", rope.get("rope_theta", 10_000.0))
    if not isinstance(base, int | float):
        raise ValueError(f"expected rope_theta to be a number, got {base!r}")
    found["rotary_base"] = float(base)
    found["norm_epsilon"] = _field(fields, "rms_norm_eps", 1e-6)
    found["tied"] = bool(_field(fields, "tie_word_embeddings", gemma))
    found["activation"] = _activation(
        fields, *(("hidden_activation",) if gemma else ()), "hidden_act"
    )
    _refuse(fields, "mlp_bias", False, "no bias in the MLP")
    if architecture != "Qwen2ForCausalLM":
        _refuse(fields, "attention_bias", False, "no bias in attention")
    if architecture == "Gemma2ForCausalLM":
        found["score_scale"] = _field(fields, "query_pre_attn_scalar") ** -0.5
        found["score_cap"] = fields.get("attn_logit_softcapping")
        found["logit_cap"] = fields.get("final_logit_softcapping")
    if architecture == "MixtralForCausalLM":
        found["experts"] = _field(fields, "num_local_experts")
        found["experts_per_token"] = _field(fields, "num_experts_per_tok")
    if architecture == "Qwen3MoeForCausalLM":
        found |= _qwen3_experts(fields)
    return ModelConfig(**ARCHITECTURES[architecture] | found)


def _qwen3_experts(fields: Mapping[str, Any]) -> dict[str, Any]:
    _refuse(fields, "decoder_sparse_step", 1, "experts in every layer")
    _refuse(fields, "mlp_only_layers", [], "experts in every layer")
    return {
        "feed_forward": _field(fields, "moe_intermediate_size"),
        # Files written by transformers 5 have the second name.
        "experts": _field(fields, "num_experts", fields.get("num_local_experts")),
        "experts_per_token": _field(fields, "num_experts_per_tok"),
        "rescale_weights": bool(_field(fields, "norm_topk_prob", False)),
    }


def read_config(path: str | Path) -> ModelConfig:
    """Reads a ``config.json``.

    Args:
        path: The file.

    Returns:
        The model's shape.

    Raises:
        ValueError: If it is no JSON object, or as ``config_from`` does.
        OSError: If it cannot be read.
    """
    text = Path(path).read_text(encoding="utf-8")
    try:
        fields = json.loads(text)
    except ValueError as error:
        raise ValueError(f"expected JSON in {Path(path).name}: {error}") from None
    return config_from(fields)
