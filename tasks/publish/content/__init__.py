"""The content that all surfaces share: words, signs, tables of facts, charts and the next command."""
