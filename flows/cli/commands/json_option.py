"""The option `--json`. Its module imports no models, so that commands without them start soon."""

from typing import Annotated

from cyclopts import Parameter

Json = Annotated[bool, Parameter(name="--json", help="Print the records as JSON on standard output.", negative="")]
