"""The commands of `maxview`, one module each: options and help. Slow imports are inside the functions."""
