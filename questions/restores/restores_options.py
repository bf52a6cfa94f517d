"""The options of the command `restores`."""

from typing import Annotated

from configs.frozen import Frozen
from tasks.resolve.form_fields import doc
from tasks.resolve.options import (
    DEFAULT_OUT,
    QUIET,
    Baseline,
    Branch,
    Cases,
    Model,
    Out,
    Overrides,
    Repository,
    Software,
    Target,
)


class RestoresOptions(Frozen):
    """The options of the command `restores`."""

    branch: Branch = ""
    baseline: Baseline = ""
    repository: Repository = ""
    cases: Cases = ()
    target: Target = ""
    software: Software = ()
    model: Model = ""
    overrides: Overrides = ()
    vary: Annotated[
        tuple[str, ...],
        QUIET,
        doc("key=value,value: each arm with each value, such as scan_layers=true,false; any number of them."),
    ] = ()
    steps: Annotated[int, doc("The steps of each run that saves.", minimum=1)] = 4
    out: Out = DEFAULT_OUT
