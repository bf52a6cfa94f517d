"""A stand-in for `python -m model.compile`, imported at the start of a separate Python: it copies a sample and compiles
nothing. The sample is the folder `samples/ARM` of that Python, with the files of a compile.
"""

import json
import shutil
import sys
from pathlib import Path


def leave_sample(words: list[str]) -> int:
    config, out = Path(words[0]), Path(words[words.index("--out") + 1])
    name = next(line for line in config.read_text().splitlines() if line.startswith("run_name:"))
    (sample,) = [arm for arm in (Path(sys.prefix) / "samples").iterdir() if f"-{arm.name}-compile-" in name]
    sys.stdout.write("lowering\ncompiling for v6e:2x2, 4 devices\n")
    for file in sample.iterdir():
        shutil.copy(file, out / file.name)
    record = json.loads((out / "compile.json").read_text())
    if record["ok"]:
        return 0
    sys.stderr.write(f"Traceback (most recent call last):\n{record['error']['type']}: {record['error']['message']}\n")
    return 1


if "model.compile" in sys.orig_argv:
    status = leave_sample(sys.orig_argv[sys.orig_argv.index("model.compile") + 1 :])
    sys.stdout.flush()
    sys.stderr.flush()
    sys.modules["os"]._exit(status)
