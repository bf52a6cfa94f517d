"""Plans of older stores: the key of the backend's settings was the backend's name."""

import json
from collections.abc import Callable

from tasks.records import RunPlan


def test_a_plan_with_settings_under_the_backends_name_is_read(make_plan: Callable[..., RunPlan]) -> None:
    plan = json.loads(make_plan("pass").model_dump_json())
    del plan["launch"]
    assert RunPlan.model_validate(plan | {"xpk": None}) == make_plan("pass")
    cluster = {"cluster": "c", "project": "p", "zone": "us-east5-b", "tpu_type": "v6e-32", "image": "i"}
    read = RunPlan.model_validate(plan | {"backend": "xpk", "xpk": cluster})
    assert read.launch is not None
    assert read.launch.model_dump(include=set(cluster)) == cluster
