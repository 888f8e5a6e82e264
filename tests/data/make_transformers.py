"""Makes the golden models: tiny ones of each architecture, run by Hugging Face.

``python tests/data/make_transformers.py`` in an environment with ``transformers`` and
``torch`` writes ``transformers/<architecture>.npz``: the configuration as JSON, every
tensor by its name in a checkpoint, tokens, and the logits of PyTorch in float32.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
import transformers

SIZES = {
    "vocab_size": 24,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "intermediate_size": 20,
    "max_position_embeddings": 32,
    "pad_token_id": None,
}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MODELS = {
    "Llama": {"rope_theta": 5e5},
    "Mistral": {"sliding_window": None},
    "Mixtral": EXPERTS | {"sliding_window": None},
    "Gemma": {"head_dim": 8},
    "Gemma2": {"query_pre_attn_scalar": 9, "sliding_window": 32},
    "Qwen2": {
        "head_dim": "absent",
        "tie_word_embeddings": True,
        "num_attention_heads": 6,
    },
    "Qwen3": {"tie_word_embeddings": False},
    "Qwen3Moe": {
        "num_experts": 4,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 8,
        "norm_topk_prob": False,
    },
    "GPT2": {"n_embd": 12, "n_layer": 2, "n_head": 4, "n_positions": 32},
}


def main() -> None:
    """Writes one file for each architecture."""
    folder = Path(__file__).parent / "transformers"
    folder.mkdir(exist_ok=True)
    for name, more in MODELS.items():
        sizes = {"vocab_size": 24} if name == "GPT2" else SIZES
        sizes = {key: n for key, n in (sizes | more).items() if n != "absent"}
        config = getattr(transformers, f"{name}Config")(**sizes)
        config._attn_implementation = "eager"
        torch.manual_seed(0)
        head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
        model = getattr(transformers, head)(config).float().eval()
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for tensor in model.parameters():
                # Large enough for norms, caps and choices of experts to matter.
                noise = torch.randn(tensor.shape, generator=generator)
                tensor.add_(0.3 * noise)
        tokens = torch.randint(0, 24, (2, 16), generator=generator)
        with torch.no_grad():
            logits = model(tokens).logits
        fields = config.to_dict() | {"architectures": [head]}
        fields["made_with"] = transformers.__version__
        tensors = {key: tensor.numpy() for key, tensor in model.state_dict().items()}
        np.savez_compressed(
            folder / f"{head}.npz",
            fields=json.dumps(fields, sort_keys=True, default=str),
            tokens=tokens.numpy(),
            logits=logits.numpy(),
            **tensors,
        )
        print(head, sum(t.size for t in tensors.values()))


if __name__ == "__main__":
    main()
