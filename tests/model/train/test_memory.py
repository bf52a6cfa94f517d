"""The memory of this process, as the trainer writes it at the end of each step."""

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from model.train.memory import read_memory

pytestmark = pytest.mark.flows

MIB = 2**20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_resident_memory_grows_with_what_is_kept() -> None:
    code = (
        "from model.train.memory import read_memory\n"
        "before = read_memory()\n"
        "kept = bytearray(b'x' * (200 << 20))\n"
        "after = read_memory()\n"
        "print(after['host_memory_b'] - before['host_memory_b'], after['host_memory_peak_b'] - after['host_memory_b'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    grown, above = map(int, done.stdout.split())
    assert 195 * MIB < grown < 230 * MIB
    assert above > -MIB  # the peak is no less than the present


def test_a_device_reports_the_use_of_the_fullest(monkeypatch: pytest.MonkeyPatch) -> None:
    class Device:
        def __init__(self, stats: dict[str, int] | None):
            self.stats = stats

        def memory_stats(self) -> dict[str, int] | None:
            return self.stats

    devices = [Device({"bytes_in_use": used, "peak_bytes_in_use": 2 * used}) for used in (5, 7)]
    monkeypatch.setattr(jax, "local_devices", lambda: [*devices, Device(None)])
    memory = read_memory()
    assert (memory["device_memory_b"], memory["device_memory_peak_b"]) == (7, 14)
    monkeypatch.setattr(jax, "local_devices", lambda: [Device(None)])
    assert not [name for name in read_memory() if name.startswith("device")]
