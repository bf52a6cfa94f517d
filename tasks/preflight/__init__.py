"""Compares the compiled programs of two arms without running them: work, memory, and differences by cost."""
