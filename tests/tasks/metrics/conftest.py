"""Run records from a few values."""

from tests.tasks.diff.conftest import make_run  # noqa: F401  # fixtures
