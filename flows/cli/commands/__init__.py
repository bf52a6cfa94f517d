"""The commands of `maxview`: their options and help. Slow imports are inside the functions, so that help is fast."""
