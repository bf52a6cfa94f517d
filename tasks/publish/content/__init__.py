"""What every surface shows in the same way: words, signs, tables of facts, charts and the next command."""
