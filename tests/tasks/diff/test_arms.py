"""The text that surfaces show beside an arm's name."""

from configs.comparison import load_comparison, load_target
from tasks.diff.examine.arms import ArmRuns, summarise
from tasks.publish.content.compared_facts import facts_of
from tasks.resolve.arm_config import resolve_config


def test_the_page_shows_the_attention_of_our_trainer(make_run) -> None:  # type: ignore[no-untyped-def]
    """Another trainer chooses by its own rule, and an old record lacks keys: nothing is shown for either."""
    config = resolve_config(load_comparison("linen-vs-nnx"), load_target("v6e-32"), case="01_base", arm="nnx").config
    run = make_run("nnx", plan={})

    def reported(**changes: object) -> str | None:
        plan = run.plan.replace(**changes)
        arm = ArmRuns(name="nnx", label="nnx", runs=(run.replace(plan=plan),))
        return dict(facts_of(summarise(arm))).get("attention")

    assert reported(config=config.model_dump()) == "flash (autoselected: on a TPU)"
    assert reported(config=config.model_dump(), trainer="maxtext") is None
    assert reported(config={"steps": 6}) is None
