"""The command line `maxview`: registers the commands, and converts results and errors into exit statuses."""

import os
import sys
import unicodedata
from collections.abc import Sequence
from importlib.metadata import version

import cyclopts
from pydantic import ValidationError
from rich.console import Console

from flows.cli.commands.bisect import bisect
from flows.cli.commands.bless import bless
from flows.cli.commands.compare import compare
from flows.cli.commands.configs import cases, resolve_command
from flows.cli.commands.explain import explain
from flows.cli.commands.history import history
from flows.cli.commands.ingest import ingest
from flows.cli.commands.invariants import invariants
from flows.cli.commands.nightly import nightly
from flows.cli.commands.preflight import preflight
from flows.cli.commands.run_flow import FlowError
from flows.cli.commands.scrape import scrape
from flows.cli.commands.services import doctor, down, up
from flows.cli.commands.site import site
from flows.cli.commands.verify import verify
from flows.cli.interrupts import INTERRUPTED, say_interrupted

MAX_ARGUMENT_LENGTH = 4_096  # characters; Linux limits a path to as many bytes
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # they reorder text


def explain_error(error: cyclopts.CycloptsError) -> str:
    """Return the message about a wrong option; for an error of pydantic, a line per option with reason and value."""
    if not isinstance(error.__cause__, ValidationError):
        return str(error)
    return "\n".join(
        f"--{str(item['loc'][-1]).replace('_', '-')}: {item['msg'].partition(',')[0]}, got {item['input']!r:.80}"
        for item in error.__cause__.errors()
    )


def show_default(value: object) -> str | None:
    """Return an option's default as text for a command's help; None, which shows nothing, for "", 0, False and None."""
    return None if value in ("", False, None) else str(value)


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
    error_formatter=lambda error: cyclopts.CycloptsPanel(explain_error(error)),
)
EXAMPLES = {  # command → arguments of two examples; they can be run as shown if the files and refs exist
    "compare": (
        "linen-vs-nnx --case 03_dropout --case 04_int8",
        "main-vs-branch --branch HEAD --until-decided --budget 10m",
    ),
    "explain": ("linen-vs-nnx", "maxview-out/runs/A maxview-out/runs/B --out kit"),
    "bisect": ("main-vs-branch --good v1 --bad main --case 01_base", "main-vs-branch --good HEAD~8 --bad HEAD"),
    "preflight": ("linen-vs-nnx", "linen-vs-nnx --case 03_dropout --target v5e-32"),
    "invariants": ("", "--case all --twin scan --twin mesh-fsdp", "--trainer maxtext --with maxtext==0.2.5"),
    "ingest": ("a.log b.log --case 03_dropout", "--baseline a1.log a2.log --candidate b1.log b2.log"),
    "scrape": ("train.log", "train.log --format json -o train.json"),
    "verify": ("maxview-out/runs/A/checkpoints", "gs://bucket/run/checkpoints --json"),
    "cases": ("", "--json"),
    "resolve": ("03_dropout", "03_dropout --target v6e-32 --set steps=50"),
    "up": ("", "--port 4300 --out gs://bucket/maxview"),
    "down": ("", "--state folder"),
    "nightly": ("", "--case 01_base --comparison linen-vs-nnx --target cpu"),
    "history": ("", "--out gs://bucket/maxview"),
    "doctor": ("", "--target v6e-32"),
    "bless": ("linen-vs-nnx --reason 'a new default'", "main-vs-branch --case 01_base --reason 'remat is off'"),
    "site build": ("", "--out gs://bucket/maxview"),
    "site serve": ("--port 0", "--out maxview-demo"),
    "site demo": ("", "page.txt --out example"),
}


def show_examples(name: str) -> str:
    """Return the text with a command's examples, which follows the command's help."""
    return "Examples:\n\n" + "\n\n".join(f"    maxview {name} {words}".rstrip() for words in EXAMPLES[name])


for command in (
    compare, explain, bisect, invariants, preflight, ingest, scrape, verify, cases, up, down, nightly, history, doctor,
    bless,
):  # fmt: skip
    app.command(command, help_epilogue=show_examples(command.__name__))
app.command(resolve_command, name="resolve", help_epilogue=show_examples("resolve"))
for name in ("build", "serve", "demo"):
    site[name].help_epilogue = show_examples(f"site {name}")
app.command(site)
app.register_install_completion_command(name="completion")


def call(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Errors in the input are printed as one message on standard error."""
    errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    try:
        check_arguments(sys.argv[1:] if argv is None else argv)
        check_home()
        result = app(argv, exit_on_error=False, print_error=True, result_action="return_value")
    except cyclopts.CycloptsError:
        return 2  # cyclopts has printed the error
    except (ValueError, FlowError) as error:
        from tasks.records.text import visible_lines

        errors.print(f"maxview: {visible_lines(str(error))}")
        return 2
    except OSError as error:
        from tasks.store.atomic import explain_full

        message = explain_full(error.filename or ".", error)
        if message is None and error.filename is not None and error.strerror:
            message = f"{error.filename}: cannot be used ({error.strerror}); check the path and your rights"
        if message is None:
            raise
        from tasks.records.text import visible_lines

        errors.print(f"maxview: {visible_lines(message)}")
        return 2
    except KeyboardInterrupt:
        say_interrupted()
        return INTERRUPTED
    return result if isinstance(result, int) else 0


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
