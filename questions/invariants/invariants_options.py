"""The options of invariants, defined once for the command line, the run form and the flow."""

from typing import Annotated

from cyclopts import Parameter

from configs.frozen import Frozen
from configs.trainers import TRAINERS, TrainerName
from questions.invariants.twin_files import list_twins
from tasks.resolve.form_fields import doc
from tasks.resolve.options import DEFAULT_OUT, QUIET, Cases, Model, Out, Overrides
from tasks.resolve.refs import MAX_NAME_LENGTH


class InvariantsOptions(Frozen):
    """The options of the flow `invariants`."""

    trainer: Annotated[
        TrainerName,
        doc(
            f"The trainer: {', '.join(TRAINERS)}. command: the two command lines of a twin's file.",
            type="string",
            enum=list(TRAINERS),
        ),
    ] = "maxview"
    ref: Annotated[
        str,
        QUIET,
        doc(
            "A branch, tag or commit, or . for the working tree; by default the installed trainer.",
            maxLength=MAX_NAME_LENGTH,
        ),
    ] = ""
    repository: Annotated[str, QUIET, doc("A clone's folder or an address that has the ref.")] = ""
    cases: Cases = ()
    twins: Annotated[
        tuple[str, ...],
        Parameter(name="--twin"),
        QUIET,
        doc(
            "A twin such as scan, or a file (mine.yml), or several; by default all.",
            items={"type": "string", "examples": list(list_twins())},
        ),
    ] = ()
    software: Annotated[
        tuple[str, ...],
        Parameter(name="--with"),
        QUIET,
        doc("The trainer's packages, such as maxtext==0.2.5, or the path of an existing Python."),
    ] = ()
    model: Model = ""
    overrides: Overrides = ()
    prove: Annotated[
        bool, QUIET, doc("Plant known faults into the right sides' programs, and say which of them are found.")
    ] = False
    comment: Annotated[
        str, QUIET, doc("A pull request on GitHub, owner/name#12, which gets one comment with the matrix.")
    ] = ""
    out: Out = DEFAULT_OUT
