"""What a config.json must say, and what is refused."""

from __future__ import annotations

import json

import pytest

from helpers.model_config import ModelConfig
from helpers.published_models import ARCHITECTURES, config_from, read_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 100,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "hidden_act": "silu",
}


def test_what_a_file_leaves_out_has_the_published_default():
    config = config_from(LLAMA)
    assert (config.key_value_heads, config.head_size) == (4, 4)
    assert (config.tied, config.rotary_base) == (False, 10_000.0)


@pytest.mark.parametrize("name", [key for key in LLAMA if key != "hidden_act"])
def test_a_missing_field_is_named(name):
    fields = {key: value for key, value in LLAMA.items() if key != name}
    with pytest.raises(ValueError, match=f"expected the field '{name}'"):
        config_from(fields)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"architectures": ["BloomForCausalLM"]}, "one of LlamaForCausalLM, .*Bloom"),
        ({"architectures": "LlamaForCausalLM"}, "architectures to be one of"),
        ({"hidden_act": "relu"}, "expected hidden_act among silu.*got 'relu'"),
        ({"hidden_act": None}, "expected hidden_act among"),
        ({"mlp_bias": True}, "expected mlp_bias False"),
        ({"attention_bias": True}, "expected attention_bias False"),
        ({"num_key_value_heads": 3}, "expected key_value_heads to divide the 4 heads"),
        (
            {"hidden_size": 16.0},
            "expected hidden_size to be a whole .*got 16.0",
        ),
        ({"hidden_size": "16"}, "expected hidden_size to be a whole number"),
        (
            {"num_hidden_layers": 0},
            "expected num_hidden_layers .* got 0",
        ),
        ({"vocab_size": True}, "expected vocab_size to be a whole number"),
        ({"head_dim": 5}, "expected an even head_size"),
        ({"rope_theta": "large"}, "expected rope_theta to be a number, got 'large'"),
    ],
)
def test_config_from_refuses(change, words):
    with pytest.raises(ValueError, match=words):
        config_from(LLAMA | change)


@pytest.mark.parametrize("fields", [None, [], "config.json", 3])
def test_config_from_refuses_what_is_no_object(fields):
    with pytest.raises(ValueError, match="expected the fields of a config.json"):
        config_from(fields)


def test_experts_need_both_numbers():
    mixtral = LLAMA | {"architectures": ["MixtralForCausalLM"]}
    with pytest.raises(ValueError, match="expected the field 'num_local_experts'"):
        config_from(mixtral)
    with pytest.raises(ValueError, match="expected 1 to 4 experts_per_token"):
        config_from(mixtral | {"num_local_experts": 4, "num_experts_per_tok": 5})


def test_dense_layers_among_experts_are_refused():
    fields = LLAMA | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "moe_intermediate_size": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
    }
    assert config_from(fields).experts == 4
    with pytest.raises(ValueError, match="expected decoder_sparse_step 1"):
        config_from(fields | {"decoder_sparse_step": 2})


def test_read_config_reads_a_file_and_refuses_others(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert read_config(path) == config_from(LLAMA)
    path.write_text("{")
    with pytest.raises(ValueError, match="expected JSON in config.json"):
        read_config(path)


def test_activation_is_one_of_two():
    with pytest.raises(ValueError, match="expected activation 'silu' or 'gelu'"):
        ModelConfig(
            vocabulary=8,
            width=8,
            layers=1,
            heads=1,
            key_value_heads=1,
            head_size=8,
            feed_forward=8,
            activation="tanh",
        )
    assert len(ARCHITECTURES) == 9
