"""The command `maxview explain`: searches for the cause of the difference between two arms."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from flows.cli.commands.common_options import DEFAULT_OUT, Json


def explain(
    subject: list[str],
    /,
    *,
    store: Annotated[str, Parameter(help="The store with the named comparison.")] = DEFAULT_OUT,
    out: Annotated[
        Path | None, Parameter(help="Write a repro kit there: both programs, their arguments, a script that needs jax.")
    ] = None,
    json_: Json = False,
) -> int:
    """Say why two arms differ: the function, the first tensor, the program, memory, time, the commits and lines.

    Both trainers are started again for a few steps, on this machine. Exit status: 0 if the
    arms' tensors or programs could be compared, else 3.

    Parameters
    ----------
    subject
        A comparison's name, its page, or the folders of two runs.
    """
    from questions.explain.explain_arms import explain_plans, say_cost_of_explanation
    from questions.explain.repro_kit import write_kit_of
    from questions.explain.subjects import find_subject
    from tasks.experiments.recordings import FOLDER
    from tasks.experiments.same_function import compare_functions, say_cost_of_function
    from tasks.publish.terminal.report import render_explanation

    found = find_subject(subject, store)
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    errors.print(say_cost_of_explanation(found.plans, None))
    function = found.record.function if found.record is not None else None
    if function is None:
        name, case = (found.record.comparison, found.record.case) if found.record is not None else ("", "")
        errors.print(say_cost_of_function(found.store, name, case))
        function = compare_functions(found.plans, found.names, found.folder.parent / FOLDER, say=errors.print)
    explanation = explain_plans(found.plans, found.names, found.folder, function=function)
    explanation = explanation.replace(function=function)
    if out is not None:
        program = write_kit_of(found.plans, found.names, found.folder, out)
        explanation = explanation.replace(repro=str(out))
        errors.print(f"repro kit: python {program}")
    if found.record is not None and found.store is not None:
        from tasks.diff.judge.next_step import follow_cause
        from tasks.publish.site.comparison_pages import publish_comparison

        explained = found.record.replace(explanation=explanation)
        explained = explained.replace(next_step=follow_cause(explained))
        page = publish_comparison(explained, found.store)
        errors.print(f"page: {page}")
    if json_:
        print(explanation.model_dump_json(indent=1))
    else:
        Console().print(render_explanation(explanation))
    return 0 if explanation.tensors or explanation.program else 3
