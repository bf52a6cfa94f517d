"""Examples of each command, for its help and for its errors."""

from configs.extensions import load_extensions

EXAMPLES = {  # command → arguments of two examples; they can be run as shown if the files and refs exist
    "compare": (
        "linen-vs-nnx --case 03_dropout --case 04_int8",
        "main-vs-branch --branch HEAD --until-decided --budget 10m",
    ),
    "ingest": ("a.log b.log --case 03_dropout", "--baseline a1.log a2.log --candidate b1.log b2.log"),
    "scrape": ("train.log", "train.log --format json -o train.json"),
    "verify": ("maxview-out/runs/A/checkpoints", "gs://bucket/run/checkpoints --json"),
    "cases": ("", "--json"),
    "resolve": ("03_dropout", "03_dropout --target v6e-32 --set steps=50"),
    "schema": ("", "-o comparisons.schema.json"),
    "up": ("", "--port 4300 --out gs://bucket/maxview"),
    "down": ("", "--state folder"),
    "doctor": ("", "--target v6e-32"),
    "noise": ("fit logs/pod-a logs/pod-b logs/pod-c", "fit 'logs/a-*.log' 'logs/b-*.log' 'logs/c-*.log' --kind tpu"),
    "bless": ("linen-vs-nnx --reason 'a new default'", "main-vs-branch --case 01_base --reason 'remat is off'"),
    "site build": ("", "--out gs://bucket/maxview"),
    "site serve": ("--port 0", "--out maxview-demo"),
    "site demo": ("", "page.txt --out example"),
} | {name: extension.examples for name, extension in load_extensions().items() if extension.command}


def show_examples(name: str) -> str:
    """Return the text with a command's examples, which follows the command's help."""
    return "Examples:\n\n" + "\n\n".join(f"    maxview {name} {words}".rstrip() for words in EXAMPLES[name])
