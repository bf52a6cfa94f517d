"""Lists the log dialects (the trainers' log formats) and recognises the dialect of a text."""

import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from tasks.scrape.window import may_match

if TYPE_CHECKING:
    from tasks.scrape.dialects.dialect import LogDialect


class DialectMark(NamedTuple):
    """Tells a dialect from the others, before its module is imported."""

    name: str  # of its module in this package, which has the `LogDialect` DIALECT
    example: str  # a row, shown in messages
    own_text: re.Pattern[bytes]  # a match shows this dialect, unless a dialect before it in DIALECTS matches

    def load(self) -> "LogDialect":
        """Return the dialect."""
        dialect: LogDialect = import_module(f"{__name__}.{self.name}").DIALECT
        return dialect


# In order of recognition: MLPerf's lines stand among lines of the trainer that prints them, and NeMo's rows contain
# text like Megatron's. MaxText is last: its own text includes `EXIT_CODE=`, which wrapper scripts print after any
# trainer.
DIALECTS = (
    DialectMark(
        "mllog", "':::MLLOG {\"namespace\": …, \"key\": …}'",
        re.compile(rb":::MLLOG \{[^\n]{0,200}\"key\": "),
    ),
    DialectMark(
        "nemo", "'Training epoch 0, iteration 0/99 | lr: … | reduced_train_loss: …'",
        re.compile(
            rb"Training epoch \d{1,9}, iteration (?:0|[1-9]\d{0,14})/\d{1,15}(?= \|)|"
            rb"Epoch \d{1,9}: [^\n]{0,1000}, reduced_train_loss="
        ),
    ),
    DialectMark(
        "megatron", "' iteration 1/ 20 | consumed samples: …'",
        re.compile(
            rb"iteration[ =] *\d+ */ *(?:\d+|infinity) *\||elapsed time per iteration \(m?s\)|"
            rb"using world size: \d+, data-parallel|-{5,80} arguments -{5,80}|\(tensor, pipeline\) model parallel rank"
        ),
    ),
    DialectMark(
        "torchtitan", "'step:  1  loss:  8.1309  grad_norm: …'",
        re.compile(rb"(?<!\w)step: +\d+(?:/\d+ = [\d.]+%)?  loss: +[-+\dni]|\[titan\] 20\d\d-\d\d-\d\d "),
    ),
    DialectMark(
        "axlearn", "'SpmdTrainer process   0 step        0] loss=10.83 aux=…'",
        re.compile(rb"process +\d{1,9} step +\d{1,15}\] (?:loss=|Average step time: )"),
    ),
    DialectMark(
        "levanter", "'Progress on:train 12.0it/400it rate:… postfix:loss=3.21'",
        re.compile(rb"Progress on:train [\d.]{1,6}k?it/(?![\s\S]*\"json_logger\", \"event\": \"log\")"),
    ),
    DialectMark(
        "hugging_face", "\"{'loss': 2.31, 'grad_norm': 1.2, …, 'epoch': 0.01}\"",
        re.compile(rb"\{'(?:(?:eval_|train_)?loss': '?[-\dni]|(?:global_)?step': \d[^\n{}]{0,8000}loss': )"),
    ),
    DialectMark(
        "json_lines", "'{\"step\": 0, \"loss\": …}'",
        re.compile(
            rb"(?:(?<=\s)|(?m:^))\{\"(?:maxview_copy_of\": |(?=[^\n]{0,8000}loss)"
            rb"(?=[^\n]{0,8000}?(?:_|\b)(?:step|iteration)\": ?-?\d)(?![\s\S]*completed step: \d))"
        ),
    ),
    DialectMark(
        "maxtext", "'completed step: 0, seconds: …', 'System Information: …', 'XPK Start: …', MaxText's and our own",
        re.compile(
            rb"completed step: \d|System Information: Jax |XPK Start: |XPK End: |EXIT_CODE=\d|Config param \w+:|"
            rb"number parameters: [\d.]+ billion|Num_devices: \d+, shape|metric_logger\.py:\d+\]|max_utils\.py:\d+\]|"
            rb"Completed eval (?:step:|after train)|File \"[^\"\n]*/(?:maxtext|MaxText|model)/[^\"\n]*\.py\""
        ),
    ),
)  # fmt: skip
MAXTEXT = DIALECTS[-1]


def recognise(text: bytes) -> "LogDialect | None":
    """Return the first dialect whose `own_text` matches in a text; None without such a dialect."""
    found = (one for one in DIALECTS if may_match(one.own_text, text) and one.own_text.search(text))
    mark = next(found, None)
    return None if mark is None else mark.load()
