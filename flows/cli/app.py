"""The command line `maxview`: names the commands, and converts results and errors into exit statuses.

A command's module is imported when the command runs: the help of all commands takes none of them.
"""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from importlib.metadata import version
from itertools import pairwise

import cyclopts

from configs.errors import suggest
from configs.questions import import_function, load_questions
from flows.cli.examples import EXAMPLES, show_examples
from flows.cli.interrupts import INTERRUPTED, say_interrupted

MAX_LINE = 2_000  # characters of a line of an error; longer ones are shortened
MAX_ARGUMENT_LENGTH = 4_096  # characters; Linux limits a path to as many bytes
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they reorder text


def show_default(value: object) -> str | None:
    """Return an option's default as text for a command's help; None, which shows nothing, for "", 0, False and None."""
    return None if value in ("", False, None) else str(value)


START, WHY, OPERATE = (cyclopts.Group(name, sort_key=number) for number, name in enumerate(("Start", "Why", "Operate")))
GROUPS = {group.name: group for group in (START, WHY, OPERATE)}
HERE = "flows.cli.commands"
COMMANDS = {  # name → group, where its function is, and its line in the help
    "compare": (START, f"{HERE}.compare:compare", "Train both arms of a comparison and report their differences."),
    "ingest": (START, f"{HERE}.ingest:ingest", "Compare runs that have finished, from their logs."),
    "doctor": (START, f"{HERE}.services:doctor", "Report what this machine, or a target, has and lacks."),
    **{
        name: (GROUPS[question.group], question.command, question.summary)
        for name, question in load_questions().items()
        if question.command
    },
    "scrape": (OPERATE, f"{HERE}.scrape:scrape", "Read logs of any supported trainer into tables."),
    "verify": (OPERATE, f"{HERE}.verify:verify", "Verify that checkpoints exist and are complete; compare two."),
    "noise": (OPERATE, f"{HERE}.noise:noise", "Fit the noise of equal runs to the logs of a fleet."),
    "bless": (OPERATE, f"{HERE}.bless:bless", "Keep the candidate's runs as the baseline."),
    "cases": (OPERATE, f"{HERE}.cases:cases", "List the cases, targets, models and comparisons."),
    "resolve": (OPERATE, f"{HERE}.resolve:resolve_command", "Show a case's config with the origin of every value."),
    "schema": (OPERATE, f"{HERE}.schema:schema", "Print the JSON Schema of comparisons, as --json prints them."),
    "site": (OPERATE, f"{HERE}.site:site", "Build or serve the pages of a store."),
    "up": (OPERATE, f"{HERE}.services:up", "Start a Prefect server with a worker on this machine."),
    "down": (OPERATE, f"{HERE}.services:down", "Stop what `maxview up` started, and an idle server."),
}

app = cyclopts.App(
    name="maxview",
    help="Did this change anything? Trains a case twice, proves the checkpoints, and says what differs.\n\n"
    "Exit status: 0 nothing regressed; 1 something regressed or changed, or an arm failed; 2 the input is wrong, or "
    "maxview itself failed; 3 unknown or not comparable; 130 interrupted.",
    version_flags=["--version"],
    version=lambda: version("maxview"),
    default_parameter=cyclopts.Parameter(show_default=show_default),
    help_format="plaintext",  # not Markdown, whose renderer is slow to import
    suppress_keyboard_interrupt=False,  # `call` handles it
)
for number, (name, (group, place, summary)) in enumerate(COMMANDS.items()):
    options = {"help_epilogue": show_examples(name)} if name in EXAMPLES else {}
    app.command(place, name=name, help=summary, group=group, sort_key=number, **options)
app.register_install_completion_command(
    name="completion", group=OPERATE, help="Install completion of commands and options for the shell."
)
app["--help"].group = app["--version"].group = OPERATE


def call_command(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Errors in the input are printed as one message on standard error."""
    words = sys.argv[1:] if argv is None else list(argv)
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        check_arguments(words)
        check_home()
        check_command(words)
        words = read_typed(words)
        result = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except cyclopts.CycloptsError as error:
        return report(explain_error(error, words), as_json=as_json)
    except ValueError as error:
        return report(str(error), as_json=as_json)
    except OSError as error:
        from tasks.store.atomic import explain_full

        message = explain_full(error.filename or ".", error)
        if message is None and error.filename is not None and error.strerror:
            message = f"{error.filename}: cannot be used ({error.strerror}); check the path and your rights"
        if message is None:
            raise
        return report(message, as_json=as_json)
    except KeyboardInterrupt:
        say_interrupted()
        return INTERRUPTED
    except Exception as error:
        if not is_flow_error(error):
            raise
        return report(str(error), as_json=as_json)
    return result if isinstance(result, int) else 0


def is_flow_error(error: Exception) -> bool:
    """Return whether a flow has failed. Its class is only known once a command that runs flows was imported."""
    module = sys.modules.get("flows.cli.commands.run_flow")
    return module is not None and isinstance(error, module.FlowError)


def report(message: str, *, as_json: bool) -> int:
    """Print an error in the input on standard error, with `--json` as JSON in one line; return the exit status."""
    if not all(line.isprintable() and len(line) < MAX_LINE for line in message.split("\n")):
        from tasks.records.text import visible_lines

        message = visible_lines(message)
    text = json.dumps({"error": message, "exit_status": 2}) if as_json else f"maxview: {message}"
    print(text, file=sys.stderr)
    return 2


def explain_error(error: cyclopts.CycloptsError, words: Sequence[str]) -> str:
    """Return the message about wrong arguments `words`; for an error of pydantic, a line per option."""
    if validation := sys.modules.get("pydantic"):
        cause = error.__cause__
        if isinstance(cause, validation.ValidationError):
            return "\n".join(
                f"--{str(item['loc'][-1]).replace('_', '-')}: "
                + (
                    item["msg"].removeprefix("Value error, ")  # of a check of ours
                    if item["type"] == "value_error"
                    else f"{item['msg'].partition(',')[0].lower()}, got {item['input']!r:.80}"
                )
                for item in cause.errors()
            )
    name = next((name for name in (" ".join(words[:2]), words[0]) if name in EXAMPLES), words[0])
    if isinstance(error, cyclopts.MissingArgumentError) and name in EXAMPLES:
        missing = re.search(r"parameter (\S+)", str(error))
        return f"{name} needs {missing[1] if missing else 'more'}; for example: maxview {name} {EXAMPLES[name][0]}"
    if isinstance(error, cyclopts.UnusedCliTokensError):
        unused = error.unused_tokens or []
        hint = suggest_joined(words, unused)
        return f"{name} does not take {' '.join(map(repr, unused))}{hint}; type: maxview {name} --help"
    text = re.sub(r"\.? Did you mean ([^?]*)\?.*", r" (did you mean \1?)", str(error)).rstrip(".").replace(": ", " ", 1)
    return f"{text[:1].lower()}{text[1:]}; type: maxview {name} --help"


def suggest_joined(words: Sequence[str], unused: Sequence[str]) -> str:
    """Return a hint to join the unused words to the value of --only with commas; "" if they do not follow it."""
    at = words.index("--only") + 2 if "--only" in words else 0
    is_next = at and list(words[at : at + len(unused)]) == list(unused)
    return f" (did you mean --only {','.join((words[at - 1], *unused))}?)" if is_next else ""


def check_command(words: Sequence[str]) -> None:
    """Raise ValueError for an unknown command, without importing the known ones, as cyclopts does."""
    known = (*COMMANDS, "completion")
    if words and words[0].startswith("-") and words[0] not in app:
        raise ValueError(f"there is no option {words[0]} without a command; type: maxview --help")
    if words and not words[0].startswith("-") and words[0] not in known:
        raise ValueError(f"there is no command {words[0]}{suggest(words[0], known)}; type: maxview --help")
    if words and words[0] in COMMANDS:
        command = app[words[0]]
        if command.default_command is not None:
            command.help = None  # its own page shows the function's docstring


def read_typed(words: list[str]) -> list[str]:
    """Return the words with the name of a comparison, or what a question reads, in place of a command after `--`."""
    question = load_questions().get(words[0]) if words else None
    if "--" not in words or not (words[:1] in (["compare"], ["verify"]) or (question and question.read_typed)):
        return words
    at = words.index("--")
    options, typed = words[1:at], words[at + 1 :]
    if words[0] == "verify":
        return read_restoring(options, typed)
    if options and not options[0].startswith("-"):
        raise ValueError(f"'{options[0]:.80}' names a comparison, and a command is typed after --: give one of them")
    if question:
        return list(import_function(question.read_typed)(typed, options))
    return ["compare", read_typed_arms(typed, options, take_steps(options)), *options]


def take_steps(options: list[str]) -> int | None:
    """Remove `--steps` from the words, and return its number; None if it is not there. Raises ValueError."""
    steps = take_option(options, "--steps")
    if steps is not None and (not steps.isdecimal() or not int(steps)):
        raise ValueError(f"--steps must be the number of steps of each run, got {steps!r:.40}")
    return int(steps) if steps else None


def read_typed_arms(typed: list[str], options: list[str], steps: int | None) -> str:
    """Write the comparison of a typed command, and return its name. steps: a run is ended after so many."""
    from tasks.resolve.typed_command import write_typed

    baseline = next((after for before, after in pairwise(options) if before == "--baseline"), "")
    return write_typed(typed, steps, baseline=baseline)


def read_restoring(options: list[str], typed: list[str]) -> list[str]:
    """Return the words of `verify CHECKPOINT --restored-by -- COMMAND`, with the command's comparison in its place."""
    from configs.custom_trainer import TYPED_MARK
    from tasks.resolve.typed_command import write_typed

    if "--restored-by" not in options:
        raise ValueError("a command after -- belongs to --restored-by: maxview verify CHECKPOINT --restored-by -- …")
    at = options.index("--restored-by")
    name = write_typed(typed, baseline="HEAD")
    return ["verify", *options[: at + 1], f"{TYPED_MARK}{name}", *options[at + 1 :]]


def take_option(options: list[str], name: str) -> str | None:
    """Remove an option with its value from the words, and return the value; None if it is not there."""
    joined = next((word for word in options if word.startswith(f"{name}=")), None)
    if joined is not None:  # a value that begins with dashes is typed so
        options.remove(joined)
        return joined.partition("=")[2]
    if name not in options:
        return None
    at = options.index(name)
    value = options[at + 1] if at + 1 < len(options) else ""
    del options[at : at + 2]
    return value


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise ValueError for an argument that is too long, or has a control character or one that reorders text."""
    for number, word in enumerate(arguments, start=1):
        if len(word) > MAX_ARGUMENT_LENGTH:
            raise ValueError(
                f"word {number} of the command line has {len(word):,} characters, at most {MAX_ARGUMENT_LENGTH:,} are "
                "possible: shorten it"
            )
        acting = next((char for char in word if unicodedata.category(char) in ("Cc", "Cs") or char in DIRECTIONS), None)
        if acting is not None:
            raise ValueError(
                f"word {number} of the command line holds the character U+{ord(acting):04X}, which cannot be shown "
                f"({word!a:.80}): type it without, and rename a file that is called so"
            )


def check_home() -> None:
    """Raise ValueError if the user has no home folder, which Prefect, uv and maxview's cache need."""
    if os.path.expanduser("~") == "~":  # unchanged if HOME is not set and the system does not list the user
        raise ValueError("HOME is not set, and this user has no home folder: set HOME to a folder that can be written")
