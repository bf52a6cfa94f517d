"""The schema of a training config: its keys, and the relations between them."""

from typing import Self

from pydantic import model_validator

from configs.config_keys import ConfigKeys
from configs.model_checks import config_problems


class TrainConfig(ConfigKeys):
    """All settings of a training run of `python -m model.train`."""

    @model_validator(mode="after")
    def _check_relations(self) -> Self:
        """Check relations between keys; each line of the error's message names the keys of one problem."""
        problems = config_problems(self)
        if problems:
            raise ValueError("\n".join(problems))
        return self


# Keys that only affect the output: the run's name, the places of its files, and whether the log has the config. The
# run's result and identity do not depend on them.
PLACE_KEYS = frozenset({"run_name", "base_output_directory", "metrics_file", "log_config"})

# Keys that are left out of MaxText's command if they have the value given here: either MaxText may lack the key, or
# MaxText's own default then applies.
OWN_KEYS = {
    "resume_after_step": -1, "grain_train_files": "", "grain_eval_files": "", "tokenizer_path": "",
    "enable_tensorboard": False,  # MaxText's default is true: in pods, metrics are read from TensorBoard files
}  # fmt: skip
