"""The command `maxview schema`, which describes the records of comparisons to programs."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema(
    *,
    output: Annotated[
        Path | None, Parameter(name=["--output", "-o"], help="A file, instead of standard output.")
    ] = None,
) -> int:
    """Print the JSON Schema of comparisons: a list of them is what compare, ingest and preflight print with --json.

    The file comparison.json beside each page has one of them.
    """
    from pydantic import TypeAdapter

    from tasks.records.compared_case import ComparisonRecord

    found = TypeAdapter(tuple[ComparisonRecord, ...]).json_schema(mode="serialization")
    text = json.dumps({"$schema": DRAFT, "title": "maxview comparisons", **found}, indent=1) + "\n"
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
    return 0
