"""The pages of a whole store: index, history, cards and bisections, and the function that publishes a record."""
