"""torchtitan's dialect: `step: 12  loss:  3.24405  grad_norm:  0.8319  memory: …`."""

import re

from tasks.scrape.dialects.dialect import Dialect
from tasks.scrape.dialects.torchtitan.rows import BODY, HEAD, KNOWN, UNFINISHED, parse
from tasks.scrape.dialects.torchtitan.told import ANCHORS, TorchtitanTold
from tasks.scrape.prefixes import RANK, TIME, is_glued

DIALECT = Dialect(
    name="torchtitan",
    example="'step:  1  loss:  8.1309  grad_norm: …'",
    marks=re.compile(rb"(?<!\w)step: +\d+(?:/\d+ = [\d.]+%)?  loss: +[-+\dni]|\[titan\] 20\d\d-\d\d-\d\d "),
    hints=(b"  loss: ", b"[titan] 20"),
    row=b"  loss: ",
    head=HEAD,
    parse=parse,
    patterns=ANCHORS,
    told=TorchtitanTold,
    time=TIME,
    known=KNOWN,
    unfinished=UNFINISHED,
    body=BODY,
    rank=RANK,
    glued=is_glued,
    afresh=(b"Starting job: ", b"Training starts at step"),
)
