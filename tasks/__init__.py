"""HOW each step is done: resolve, launch, watch, scrape, verify, diff, publish.

In: requests, or logs that exist. Out: records, and the pages that draw them.
Read first: records/compared_case.py, then the packages in the order of docs/architecture.md.
"""
