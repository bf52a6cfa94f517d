"""Questions beside the pipeline, a folder each: why two arms differ, which commit, does it compile, since when."""
