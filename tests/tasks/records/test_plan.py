"""Plans and handles of older stores: the key of the backend's settings was its name; `replay` was a backend."""

import json
from collections.abc import Callable

from pydantic import TypeAdapter

from tasks.launch.local.handle import LocalHandle
from tasks.records.plan import RunPlan, StoredHandle


def test_a_plan_with_settings_under_the_backends_name_is_read(make_plan: Callable[..., RunPlan]) -> None:
    plan = json.loads(make_plan("pass").model_dump_json())
    del plan["launch"]
    assert RunPlan.model_validate(plan | {"xpk": None}) == make_plan("pass")
    cluster = {"cluster": "c", "project": "p", "zone": "us-east5-b", "tpu_type": "v6e-32", "image": "i"}
    # `extra` was a setting
    read = RunPlan.model_validate(plan | {"backend": "xpk", "xpk": cluster | {"extra": ["--spot"]}})
    assert read.launch is not None
    assert read.launch.model_dump(include=set(cluster)) == cluster


def test_a_replayed_run_is_read_as_one_of_this_machine(make_plan: Callable[..., RunPlan]) -> None:
    plan = json.loads(make_plan("pass").model_dump_json())
    older = plan | {
        "log_limit_mb": 10_000,
        "backend": "replay",
        "launch": {"backend": "replay", "logs": ["a.txt"], "speed": 60.0},
    }
    assert RunPlan.model_validate(older) == make_plan("pass")
    handle = LocalHandle(backend="local", job_name="a-run", log="a.txt", pid=1, created=1.0)
    older = json.loads(handle.model_dump_json()) | {"backend": "replay"}
    assert TypeAdapter(StoredHandle).validate_python(older) == handle
