"""Questions beside the pipeline, one whole package each; configs/extensions.py lists them."""
