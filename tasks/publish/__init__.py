"""Renders records for people: terminal reports, Prefect artifacts, pull request comments and static pages.

In: `ComparisonRecord`. Out: text for the terminal, Markdown, pages.
Read first: content/verdict_words.py.
"""
