"""The fixtures of the pipeline's tests, for the questions beside it."""

from tests.flows.conftest import *  # noqa: F403
from tests.tasks.conftest import *  # noqa: F403
