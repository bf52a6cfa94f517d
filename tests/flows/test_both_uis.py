"""A run in both of Prefect's UIs, in a real browser and with a password: the display is correct, and no script of a log
runs.

Needs the playwright package and a Chromium on the PATH (Debian: `apt-get install chromium`); skipped without.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.standins.replay import write_python

pytestmark = pytest.mark.long

UIS = {"classic": "", "new": "/v2"}
ACTS = "</script><script>window.owned=1</script><img src=x onerror=window.owned=2>[link](javascript:window.owned=3)"
HOSTILE_BRANCH = "<img src=x onerror=window.owned=4><script>window.owned=5</script>"
STEP = (
    "I0418 00:55:{0:02}.000000 1 metric_logger.py:196] completed step: {0}, seconds: 0.148, TFLOP/s/device: 91.824, "
    "Tokens/s/device: 13838.0, total_weights: 65536, loss: {1:.3f}"
)
# the new UI requests its settings for statistics before it reads that they are off; it sends none
ASKED_BY_THE_NEW_UI = {"sr-client-cfg.amplitude.com"}
# requests of Prefect's UIs to their own server that always fail
MISSING_IMAGES = (
    "/ico/undefined.svg",
    "/failed.svg",
    "/completed.svg",
    "/running.svg",
    "/cancelling.svg",
    "/cancelled.svg",
    "/favicon.ico",
)
# reports every assignment to the marker, on any page and at any time
TRAP = "Object.defineProperty(window, 'owned', {set(value) { window.acted(String(value)) }})"
ACTIVE = "document.querySelectorAll('[href^=\"javascript:\" i], [onerror], [onload]').length"
WAIT_MS = 120_000

type Runs = dict[str, str]


@dataclass
class Visit:
    """One browser window of one user with a session."""

    ui: str
    page: Any
    address: str
    foreign: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    acted: list[str] = field(default_factory=list)

    def open(self, path: str, *texts: str) -> None:
        """Go to a page of the UI and wait until it shows the texts."""
        self.page.goto(self.address + path)
        for text in texts:
            self.sees(text)
        assert self.page.evaluate(ACTIVE) == 0

    def sees(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for(state="visible", timeout=WAIT_MS)

    def holds(self, condition: str) -> None:
        """Wait until a condition in JavaScript holds: these UIs draw graphics after their text."""
        self.page.wait_for_function(condition, timeout=WAIT_MS)

    def choose(self, tab: str) -> None:
        self.page.get_by_text(tab, exact=True).last.click(timeout=WAIT_MS)


# CI looks at the UI that opens first
@pytest.fixture(scope="module", params=["classic", pytest.param("new", marks=pytest.mark.by_hand)])
def window(request: pytest.FixtureRequest, browser: Any, one_stack: Any) -> Iterator[Visit]:
    """A window of each UI for all tests: the UIs are large, and take seconds to load."""
    one_stack.bring_up()
    server = f"http://127.0.0.1:{one_stack.port}"
    context = browser.new_context(viewport={"width": 1300, "height": 1000})
    context.set_default_timeout(WAIT_MS)
    visit = Visit(request.param, context.new_page(), server + UIS[request.param])

    def asked(route: Any) -> None:
        visit.foreign.add(urlsplit(route.request.url).hostname or "")
        route.abort()

    def said(message: Any) -> None:
        where = message.location.get("url", "")
        ours = where.startswith(server) and not where.endswith(MISSING_IMAGES)
        busy = "status of 503" in message.text  # errors of SQLite, which are irrelevant to the display
        # the new UI asks for the task run of every artifact, also of a flow run's, which has none
        asks = where.endswith("/task_runs/filter") and "status of 422" in message.text
        if message.type == "error" and ours and not busy and not asks and "/assets/" not in where:
            visit.complaints.append(f"{where}: {message.text}")

    context.expose_function("acted", lambda what: visit.acted.append(what))
    context.add_init_script(TRAP)
    context.route(lambda url: not url.startswith((server, "data:", "blob:")), asked)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.page.on("dialog", lambda dialog: visit.complaints.append(f"dialog: {dialog.message}"))
    visit.page.goto(f"{visit.address}/login")
    visit.page.evaluate("() => { window.owned = 'something'; return window.acted('the trap is set') }")
    assert visit.acted == ["something", "the trap is set"]
    visit.page.get_by_placeholder("admin:pass").fill(one_stack.password, timeout=WAIT_MS)
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**/dashboard**", timeout=WAIT_MS)
    visit.page.on("console", said)  # an earlier visit would request runs that do not exist yet
    yield visit
    context.close()


@pytest.fixture
def visit(window: Visit) -> Iterator[Visit]:
    """A test's visit; afterwards no hostile script has run and the window has reported no error."""
    window.acted.clear()
    yield window
    window.page.evaluate("window.acted('the end')")
    assert window.acted == ["the end"]
    assert window.complaints == []
    assert window.foreign <= (ASKED_BY_THE_NEW_UI if UIS[window.ui] else set())


@pytest.fixture
def runs(stack: Any) -> Runs:
    """The flow runs of a comparison whose candidate died with a hostile message, and of one with a hostile branch."""
    folder = stack.logs / "01_base"
    if not folder.exists():
        folder.mkdir(parents=True)
        steps = [line for step in range(10) for line in (STEP.format(step, 9 - step / 2), f"I0418 1 a.py:1] {ACTS}")]
        frame = "XPK Start: Sat Apr 18 00:54:24 UTC 2026\n{}\nXPK End: Sat Apr 18 00:57:24 UTC 2026\nEXIT_CODE={}\n"
        died = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', f"ValueError: {ACTS}"]
        (folder / "linen.txt").write_text(frame.format("\n".join(steps), 0))
        (folder / "nnx.txt").write_text(frame.format("\n".join([*steps, *died]), 1))
        python = write_python(stack.folder / "playing" / "python", stack.logs)
        software = [f"{arm}:{python}" for arm in ("linen", "nnx")]
        wanted = {"more": {"repeats": 1, "software": software}, "out": str(stack.folder / "seen")}
        stack.seen["died"] = stack.run("compare/linen-vs-nnx", cases=["01_base"], **wanted)
        stack.seen["refused"] = stack.run("compare/main-vs-branch", branch=HOSTILE_BRANCH, out=wanted["out"])
        assert stack.ended(stack.seen["died"])["name"] == "Died"
        assert stack.ended(stack.seen["refused"])["name"] == "Failed"
        wanted = {"flow_runs": {"id": {"any_": [stack.seen["died"]]}}}
        stack.wait(
            lambda: any(
                one["name"].startswith("publish ") for one in stack.request("POST", "/task_runs/filter", wanted)
            )
        )  # the last task is recorded a little later
    return dict(stack.seen)


@pytest.fixture
def artifact(stack: Any, runs: Runs) -> Callable[[str], str]:
    """The id of an artifact of the comparison."""
    wanted = {"artifacts": {"flow_run_id": {"any_": [runs["died"]]}}}
    ids = {item["key"]: item["id"] for item in stack.request("POST", "/artifacts/filter", wanted)}
    return lambda key: str(ids[key])


def test_a_run_its_tasks_logs_and_artifacts(visit: Visit, runs: Runs) -> None:
    visit.open(f"/runs/flow-run/{runs['died']}", "01_base: linen vs nnx on cpu", "Died", "Task runs", ACTS)
    visit.holds("document.querySelectorAll('canvas').length === 1")  # the graph is an image without text
    visit.choose("Task Runs")
    for task in (
        "resolve linen-vs-nnx",
        "launch linen 01_base r0",
        "watch nnx 01_base r0",
        "scrape nnx 01_base r0",
        "diff 01_base",
    ):
        visit.sees(task)
    visit.choose("Artifacts")
    visit.sees("linen-vs-nnx-01-base")
    visit.choose("Parameters")
    visit.sees('"01_base"')


def test_the_verdict_with_a_link_to_the_page(visit: Visit, artifact: Callable[[str], str]) -> None:
    visit.open(f"/artifacts/artifact/{artifact('linen-vs-nnx-01-base')}", "† died: 01_base")
    visit.sees(f"ValueError: {ACTS}")  # verbatim
    visit.sees("/comparisons/linen-vs-nnx/01_base/")  # its page


def test_a_hostile_name_is_shown_as_text(visit: Visit, runs: Runs) -> None:
    visit.open(f"/runs/flow-run/{runs['refused']}", f"01_base: main vs {HOSTILE_BRANCH} on cpu", "Failed")
    visit.choose("Parameters")
    visit.sees(HOSTILE_BRANCH)
    visit.open("/runs", f"01_base: main vs {HOSTILE_BRANCH} on cpu")


def test_the_run_form_explains_its_parameters(visit: Visit, stack: Any) -> None:
    deployment = stack.request("GET", "/deployments/name/compare/main-vs-branch")
    visit.open(
        f"/deployments/deployment/{deployment['id']}/run",
        "What to compare: a file in configs/comparisons",
        "For main-vs-branch: the branch, tag or commit to judge, such as HEAD; by default the working tree (.)",
        "Options that are rarely needed",
        "Runs per arm, interleaved; as configured by default.",
    )
    visit.page.get_by_text("main-vs-branch", exact=True).last.click()  # the dropdown
    visit.page.keyboard.press("ArrowDown")  # the classic UI closes an open element at the next click
    visit.sees("maxtext-releases")


# the controls that cancel the shown run
CANCELS = {
    "classic": (".p-icon-button-menu", "text=Cancel", "button:has-text('Confirm')"),
    "new": (
        "button:has-text('Open menu') >> nth=0",
        "[role=menuitem]:has-text('Cancel')",
        "[role=alertdialog] button:has-text('Cancel Flow Run')",
    ),
}


def test_a_click_cancels_the_run_and_ends_its_job(visit: Visit, stack: Any) -> None:
    # its own runs; one run of each has no first look at the programs, whose processes end with the flow's
    more = {"classic": {"overrides": ["steps=23"], "repeats": 1}, "new": {"overrides": ["steps=24"]}}[visit.ui]
    run = stack.run("compare/main-vs-branch", branch="slow", repository=str(stack.repository), more=more)
    stack.wait(stack.jobs)
    visit.open(f"/runs/flow-run/{run}", "Running")
    for what in CANCELS[visit.ui]:
        visit.page.locator(what).last.click(timeout=WAIT_MS)
    assert stack.ended(run)["type"] == "CANCELLED"
    if "repeats" in more:
        assert not stack.jobs()  # the jobs end before the flow run does
    stack.wait(lambda: not stack.jobs())
    visit.sees("Cancelled")
