"""Formats a plan's config as the YAML file that the trainer reads."""

import json

from tasks.records import RunPlan


def config_text(plan: RunPlan) -> str:
    """Return a plan's config as YAML lines `key: value  # origin`."""
    lines = [f"# {plan.run_name}: every value of the run, and where it was set"]
    lines += [f"{key}: {yaml_scalar(value)}  # {plan.origins.get(key, '')}" for key, value in plan.config.items()]
    return "\n".join(lines) + "\n"


def yaml_scalar(value: object) -> str:
    """Return a JSON value as ASCII YAML. Not json.dumps's own escapes, whose surrogate pairs YAML does not join."""
    text = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\x7f")
    return text.encode("ascii", "backslashreplace").decode()
