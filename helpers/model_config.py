"""The shape of a decoder transformer: all that decides its arrays and results."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelConfig"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a decoder transformer, in the book's letters.

    Attributes:
        vocabulary: V, the number of tokens it knows.
        width: D, the length of a token's vector.
        layers: L.
        heads: N, query heads.
        key_value_heads: K, which divides N.
        head_size: H.
        feed_forward: F, the inner width of the MLP, of one expert if there are any.
        experts: E, MLPs to choose from; 0 for one MLP that every token takes.
        experts_per_token: How many of them a token takes.
        tied: Whether the output projection is the embedding.
        gated: Whether the MLP multiplies by an activated gate (SwiGLU, GeGLU).
        activation: ``silu`` or ``gelu`` (its tanh form).
        attention_bias: Whether queries, keys and values have biases.
        biases: Whether every projection has a bias, as GPT-2 has.
        query_key_norm: Whether queries and keys are normalised, head by head.
        output_norms: Whether attention and MLP are normalised once more, at their ends.
        layer_norm: Mean and bias in the norms (LayerNorm) instead of RMSNorm.
        norm_offset: Whether a norm multiplies by one plus its weight.
        norm_epsilon: What a norm adds to the mean square.
        positions: Learned positions (how many); 0 for rotary ones.
        rotary_base: The base of the rotary frequencies.
        rescale_weights: Whether the chosen experts' weights are made to sum to one.
        scale_embedding: Whether embeddings are multiplied by the root of D.
        score_scale: What scores are multiplied by; the inverse root of H if None.
        score_cap: Scores are squeezed to within this by a tanh; None leaves them.
        logit_cap: The same for logits.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    key_value_heads: int
    head_size: int
    feed_forward: int
    experts: int = 0
    experts_per_token: int = 0
    tied: bool = False
    gated: bool = True
    activation: str = "silu"
    attention_bias: bool = False
    biases: bool = False
    query_key_norm: bool = False
    output_norms: bool = False
    layer_norm: bool = False
    norm_offset: bool = False
    norm_epsilon: float = 1e-6
    positions: int = 0
    rotary_base: float = 10_000.0
    rescale_weights: bool = True
    scale_embedding: bool = False
    score_scale: float | None = None
    score_cap: float | None = None
    logit_cap: float | None = None

    def __post_init__(self) -> None:
        """Refuses shapes that no model can have."""
        sizes = ("vocabulary", "width", "layers", "heads", "key_value_heads")
        for name in (*sizes, "head_size", "feed_forward"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(
                    f"expected {name} to be a whole number >= 1, got {value!r}"
                )
        if self.heads % self.key_value_heads:
            raise ValueError(
                f"expected key_value_heads to divide the {self.heads} heads, got "
                f"{self.key_value_heads}"
            )
        if not 0 <= self.experts_per_token <= self.experts or (
            bool(self.experts) != bool(self.experts_per_token)
        ):
            raise ValueError(
                f"expected 1 to {self.experts} experts_per_token for {self.experts} "
                f"experts, got {self.experts_per_token}"
            )
        if not self.positions and self.head_size % 2:
            raise ValueError(
                f"expected an even head_size for rotary positions, got {self.head_size}"
            )
        if self.activation not in ("silu", "gelu"):
            raise ValueError(
                f"expected activation 'silu' or 'gelu', got {self.activation!r}"
            )
