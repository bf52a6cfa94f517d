"""The commands of `maxview`, a module each: their words, and what they call; slow imports happen inside them."""
