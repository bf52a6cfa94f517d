"""The keys of a training config, named as MaxText names them, with their types and bounds.

Defaults live once, in `base.yml`, next to the one-line meaning of each key; so no field here has a default.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Positive = Annotated[int, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Axis = Annotated[int, Field(ge=-1)]


class Frozen(BaseModel):
    """A record that cannot change after it was made and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class TrainConfig(Frozen):
    """Every value one training run depends on; `python -m model.train` needs nothing else."""

    # the run
    run_name: str
    base_output_directory: str
    hardware: Literal["cpu", "tpu", "gpu"]
    pure_nnx: bool
    steps: Positive
    log_config: bool
    metrics_file: str

    # the model
    base_emb_dim: Positive
    base_num_query_heads: Positive
    base_num_kv_heads: Positive
    head_dim: Positive
    base_mlp_dim: Positive
    base_num_decoder_layers: Positive
    vocab_size: Positive
    normalization_layer_epsilon: Annotated[float, Field(gt=0)]
    rope_max_timescale: Positive
    scan_layers: bool
    param_scan_axis: Annotated[int, Field(ge=0, le=1)]
    remat_policy: Literal["full", "minimal", "none"]
    attention: Literal["dot_product"]
    enable_dropout: bool
    dropout_rate: Annotated[float, Field(ge=0.0, lt=1.0)]

    # numbers
    dtype: Literal["float32", "bfloat16"]
    weight_dtype: Literal["float32", "bfloat16"]
    matmul_precision: Literal["default", "high", "highest"]

    # the data
    dataset_type: Literal["synthetic"]
    per_device_batch_size: Positive
    max_target_length: Positive

    # the optimizer
    opt_type: Literal["adamw"]
    learning_rate: Annotated[float, Field(gt=0)]
    learning_rate_schedule_steps: Annotated[int, Field(ge=-1)]
    warmup_steps_fraction: Fraction
    learning_rate_final_fraction: Fraction
    adam_b1: Fraction
    adam_b2: Fraction
    adam_eps: Annotated[float, Field(ge=0)]
    adam_eps_root: Annotated[float, Field(ge=0)]
    adam_weight_decay: Annotated[float, Field(ge=0)]
    gradient_clipping_threshold: Annotated[float, Field(ge=0)]

    # random numbers
    init_weights_seed: int
    data_shuffle_seed: int

    # devices
    ici_data_parallelism: Axis
    ici_fsdp_parallelism: Axis
    ici_tensor_parallelism: Axis

    # checkpoints
    enable_checkpointing: bool
    async_checkpointing: bool
    checkpoint_period: Positive

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        if self.base_num_query_heads != self.base_num_kv_heads:
            raise ValueError("base_num_kv_heads must equal base_num_query_heads (no grouped-query attention)")
        if self.head_dim % 2:
            raise ValueError("head_dim must be even: rotary embeddings turn pairs of channels")
        if [self.ici_data_parallelism, self.ici_fsdp_parallelism, self.ici_tensor_parallelism].count(-1) > 1:
            raise ValueError("only one of the ici_*_parallelism keys may be -1 (= all devices that are left)")
        return self


# Where a run writes does not change what it computes: these keys are left out of a run's identity.
PLACE_KEYS = frozenset({"run_name", "base_output_directory", "metrics_file", "log_config"})
