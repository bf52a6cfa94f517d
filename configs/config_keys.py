"""The keys of a training config, which have MaxText's names, with their types and bounds.

`base.yml` has the default and the meaning of each key, so the fields here have no defaults.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from configs.frozen import Frozen


def _check_float32(value: float) -> float:
    """Return the value. Raises ValueError if it becomes infinite, 0 or, from below, 1 in the trainers' float32."""
    if abs(value) > 3.4028235e38:
        raise ValueError("is infinite in float32 (at most 3.4028235e38)")
    if value and abs(value) < 1.1754944e-38:
        raise ValueError("is 0 in float32 (at least 1.1754944e-38)")
    if value < 1.0 and value >= 1.0 - 2.0**-25:
        raise ValueError("is 1 in float32")
    return value


def _check_not_zero(value: int) -> int:
    if value == 0:
        raise ValueError("must be -1 or at least 1")
    return value


Positive = Annotated[int, Field(gt=0, lt=2**31)]  # below 2**31: the trainers count steps and tokens in 32 bits
# -1 has a meaning of its own for each key: see base.yml
PositiveOrMinusOne = Annotated[int, Field(ge=-1, lt=2**31), AfterValidator(_check_not_zero)]
Float32 = Annotated[float, AfterValidator(_check_float32)]
NotNegative = Annotated[Float32, Field(ge=0)]
MoreThanZero = Annotated[Float32, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Decay = Annotated[Float32, Field(ge=0.0, lt=1.0)]  # 1 would make Adam's bias correction divide by 0
Seed = Annotated[int, Field(ge=0, lt=2**32)]
FileName = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._+-]*)?$")]  # a single path component, or empty


class ConfigKeys(Frozen):
    """The keys of a config, each checked alone."""

    model_config = ConfigDict(allow_inf_nan=False)  # merged with Frozen's model_config

    # the run
    run_name: FileName
    base_output_directory: str
    hardware: Literal["cpu", "tpu", "gpu"]
    pure_nnx: bool
    steps: Positive
    log_config: bool
    metrics_file: str
    enable_tensorboard: bool
    profiler: Literal["", "xplane"]
    skip_first_n_steps_for_profiler: Annotated[int, Field(ge=0, lt=2**31)]
    profiler_steps: Positive
    gcs_metrics: bool

    # the model
    base_emb_dim: Positive
    base_num_query_heads: Positive
    base_num_kv_heads: Positive
    head_dim: Positive
    base_mlp_dim: Positive
    base_num_decoder_layers: Positive
    vocab_size: Positive
    normalization_layer_epsilon: MoreThanZero
    rope_max_timescale: Positive
    scan_layers: bool
    param_scan_axis: Annotated[int, Field(ge=0, le=1)]
    remat_policy: Literal["full", "minimal", "save_dot_except_mlp", "qkv_proj_offloaded", "none"]
    attention_type: Literal["global", "mla"]
    q_lora_rank: Annotated[int, Field(ge=0)]
    kv_lora_rank: Positive
    qk_nope_head_dim: Positive
    qk_rope_head_dim: Positive
    v_head_dim: Positive
    num_experts: Positive
    num_experts_per_tok: Positive
    norm_topk_prob: bool
    shared_experts: Annotated[int, Field(ge=0)]
    base_moe_mlp_dim: Positive
    first_num_dense_layers: Annotated[int, Field(ge=0)]
    capacity_factor: float
    load_balance_loss_weight: NotNegative
    attention: Literal["autoselected", "dot_product", "flash"]
    enable_dropout: bool
    dropout_rate: Annotated[float, Field(ge=0.0, lt=1.0)]

    # numbers
    dtype: Literal["float32", "bfloat16"]
    weight_dtype: Literal["float32", "bfloat16"]
    matmul_precision: Literal["default", "high", "highest"]

    quantization: Literal["", "int8"]

    # the data
    dataset_type: Literal["synthetic", "grain"]
    grain_train_files: str
    grain_eval_files: str
    grain_file_type: Literal["arrayrecord", "parquet", "txt"]
    tokenizer_path: str
    per_device_batch_size: Positive
    max_target_length: Positive

    # the optimizer
    opt_type: Literal["adamw"]
    learning_rate: MoreThanZero
    learning_rate_schedule_steps: PositiveOrMinusOne
    warmup_steps_fraction: Fraction
    learning_rate_final_fraction: Fraction
    adam_b1: Decay
    adam_b2: Decay
    adam_eps: NotNegative
    adam_eps_root: NotNegative
    adam_weight_decay: NotNegative
    gradient_clipping_threshold: NotNegative
    gradient_accumulation_steps: Positive
    optimizer_memory_host_offload: bool

    # evaluation
    eval_interval: PositiveOrMinusOne
    eval_steps: Positive

    # random numbers
    init_weights_seed: Seed
    data_shuffle_seed: Seed

    # devices
    shardy: bool
    ici_data_parallelism: PositiveOrMinusOne
    ici_pipeline_parallelism: Positive
    num_layers_per_pipeline_stage: Positive
    num_pipeline_microbatches: PositiveOrMinusOne
    ici_fsdp_parallelism: PositiveOrMinusOne
    ici_context_parallelism: PositiveOrMinusOne
    ici_tensor_parallelism: PositiveOrMinusOne
    ici_expert_parallelism: PositiveOrMinusOne

    # checkpoints
    enable_checkpointing: bool
    async_checkpointing: bool
    checkpoint_period: Positive
    resume_after_step: Annotated[int, Field(ge=-1, lt=2**63)]
