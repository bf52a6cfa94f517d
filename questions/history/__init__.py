"""The extension `history` collects comparisons into series, the noise of equal runs, and change points.

In: stored comparisons. Out: tables of rows, `Past`, and the page of trends.
Read first: history_table.py.
"""

from configs.extensions import Extension

EXTENSION = Extension(
    command="questions.history.command:history",
    summary="Show every metric over time, and its changes of level.",
    examples=("", "--out gs://bucket/maxview"),
    read_past="questions.history.prior:past_of_history",
    after_publishing="questions.history.history_table:append_comparison",
    after_night="questions.history.history_table:compact_store",
    demo="questions.history.page:add_history_to_demo",
)
