"""The content that terminal, Prefect, GitHub and pages share: words, signs, facts, charts and the next command."""
