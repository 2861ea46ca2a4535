"""2,000 damaged model files: each is refused with a message or loads and speaks, and none crashes the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.native.conftest import Models

MUTATIONS = 2000


@pytest.mark.heavy
@pytest.mark.parametrize("share", range(2))
def test_damaged_files(models: Models, share: int, tmp_path: Path) -> None:
    """Catches reads beyond the file, trust in a damaged count, type or offset, and hangs. A process of its own takes
    the files, so that a crash is seen, together with the number of the file that caused it."""
    script = Path(__file__).with_name("load_damaged.py")
    count = MUTATIONS // 2
    run = subprocess.run(
        [sys.executable, str(script), str(models["tiny"].model_file), str(share), str(count), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=Path(__file__).parents[2],
    )
    lines = run.stdout.splitlines()
    assert run.returncode == 0, f"after {lines[-1:]}: {run.stderr[-2000:]}"
    refused, loaded = (int(n) for n in lines[-1].split()[1:])
    assert refused + loaded == count
    assert refused > count // 4  # the damage reaches what the loader checks
