"""The commands and flows of the extensions, whose work is in tasks/extensions; configs/extensions.py lists them."""
