"""Finds the questions beside the pipeline, and the functions that they add to it.

A question is a package of questions/ and its name in QUESTIONS there: its command, its flow and the flow's steps, its
work and its pages. The pipeline imports none of them and knows no name: it finds them here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal

# When the pipeline asks for a next step: an arm cannot be judged; the arms differ; they agree, and every case has run.
type Moment = Literal["blocked", "differs", "agrees"]


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a question adds: places of functions, `module:name` or empty, and the help of its command.

    The module is imported when the function is first called. Arguments and results are those of the pipeline's records.
    """

    command: str = ""  # a command of the command line, with the function's name
    summary: str = ""  # the command's line in the help
    group: Literal["Start", "Why", "Operate"] = "Why"  # the command's group in the help
    examples: tuple[str, ...] = ()  # arguments of the command that work as shown
    flow: str = ""  # a Prefect flow; the fields of its options are the rows of its run form
    launches_jobs: bool = False  # whether the flow launches jobs, which have to end with it
    # (request, target, store, jobs) → case → its comparison, for the cases that are not to be trained
    refuse_cases: str = ""
    after_run: str = ""  # (run, plans of its case): acts on a run that has ended, before its record is written
    read_past: str = ""  # (case, store) → level → differences of earlier equal runs
    # (comparison, plans of both arms if they can run here again, store, records of its runs) → the comparison with more
    after_case: str = ""
    after_publishing: str = ""  # (comparison, store, known records of its runs): keeps what it needs of the comparison
    explain_plans: str = ""  # (plans of two arms, their names, folder, states=) → why they differ
    after_regression: str = ""  # (cell of a night, the night's plan, store) → what it found about a new regression
    twins_of_night: str = ""  # (night's plan, store) → whether each trainer's twins compute one function
    after_night: str = ""  # (store): acts after a night's comparisons
    # (words after `--`, options before them) → words of the command in which a typed command takes part
    read_typed: str = ""
    suggests_when: Moment | None = None  # the moment at which its command may be the next step
    suggest: str = ""  # (comparison, plan of each arm) → words of its command; [] if it does not help
    purpose: str = ""  # what this command does, for the reader of the comparison
    served: str = ""  # pattern of the paths of its pages in a store


def import_function(place: str) -> Callable[..., Any]:
    """Return the function at `module:name`."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


@cache
def load_questions() -> MappingProxyType[str, Question]:
    """Return name → QUESTION of the package questions.NAME, which imports none of its modules."""
    names = import_module("questions").QUESTIONS  # by name, because nothing below `questions` may depend on it
    return MappingProxyType({name: import_module(f"questions.{name}").QUESTION for name in names})


def find_functions(point: str) -> list[Callable[..., Any]]:
    """Return the functions of all questions at a point of the pipeline, which is a field of `Question`."""
    places = [getattr(question, point) for question in load_questions().values()]
    return [import_function(place) for place in places if place]


def find_flow(name: str) -> Callable[..., Any]:
    """Return the flow of this name: a question's, or the pipeline's in the module `flows.NAME`."""
    question = load_questions().get(name)
    return import_function(question.flow if question and question.flow else f"flows.{name}:{name}")
