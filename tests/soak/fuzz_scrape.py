"""Fuzzes the log readers of all dialects for some minutes: no crash, no hang, no invented number.

    python -m tests.soak.fuzz_scrape [--minutes 10] [--seed 0] [--show 5]

Every example is a log of one dialect, from one or two writers, in one of the wrappings, with up to six sections cut,
flipped, doubled, moved or overwritten. `tests/fuzzing/logs.py` creates them; `judge_reading.py` judges the reading and
lists the accepted deviations. One in 300 is only read, with 900 kB of one repeated piece appended. More than ten
seconds count as a hang. Exit status 1 if there is a finding; it names the dialect and seed that reproduce it.
"""

import argparse
import faulthandler
import time
import traceback
from collections import Counter

from benchmarks.machine import describe_machine
from tests.fuzzing.judge_reading import read
from tests.fuzzing.logs import make_example, repeat_piece, try_example
from tests.fuzzing.specs import SPECS

HANG_S = 10.0
REPEATED_EVERY = 300


def main() -> int:
    """Print the number of examples and the findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=5, help="findings to print per dialect")
    arguments = parser.parse_args()
    print(describe_machine())
    counts: dict[str, Counter[str]] = {spec.name: Counter() for spec in SPECS}
    end, seed = time.monotonic() + 60 * arguments.minutes, arguments.seed
    while time.monotonic() < end:
        for spec in SPECS:
            count = counts[spec.name]
            example = make_example(spec, seed)
            begin = time.process_time()
            faulthandler.dump_traceback_later(60, exit=True)  # shows the place of an endless hang
            try:
                was_read, wrong = try_example(example)
                if seed % REPEATED_EVERY == 0:
                    repeated = repeat_piece(example, seed)
                    begin = time.process_time()
                    read(repeated)
            except Exception:  # any exception is a finding
                was_read, wrong = True, [traceback.format_exc()]
                count["crashes"] += 1
            faulthandler.cancel_dump_traceback_later()
            seconds = time.process_time() - begin
            count["tried"] += 1
            count["read"] += was_read
            count["bytes"] += len(example.data)
            if seconds > HANG_S:
                wrong.append(f"took {seconds:.1f} s for {len(example.data)} bytes")
                count["hangs"] += 1
            if wrong:
                count["findings"] += 1
                if count["findings"] <= arguments.show:
                    print(f"{spec.name}, seed {seed}: {wrong[0][:2000]}\n", flush=True)
        seed += 1
    for name, count in counts.items():
        print(
            f"{name:12s} {count['tried']:8,} tried, {count['read']:8,} read, {count['bytes'] / 1e6:6.1f} MB; "
            f"{count['crashes']} crashes, {count['hangs']} hangs, {count['findings']} findings"
        )
    return 1 if any(count["findings"] for count in counts.values()) else 0


if __name__ == "__main__":
    raise SystemExit(main())
