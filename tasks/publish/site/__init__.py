"""The pages of a store together: its index, history, cards and bisections, and the function that publishes a record."""
