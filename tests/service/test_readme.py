"""The README's examples, run as they stand against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import soundfile

from tests.service.server_process import Server

README = (Path(__file__).parents[2] / "README.md").read_text()


def example(name: str, server: Server) -> str:
    """The code block marked `<!-- test: name -->`, with the running server's address."""
    match = re.search(rf"<!-- test: {name} -->\n```\w+\n(.*?)```", README, re.DOTALL)
    assert match
    return match.group(1).replace("http://127.0.0.1:8080", server.url)


def test_curl(server: Server, tmp_path: Path) -> None:
    """Catches an example that does not give the promised file: a WAV of a few seconds with sound in it."""
    subprocess.run(["bash", "-euc", example("curl", server)], cwd=tmp_path, check=True, timeout=120)
    samples, rate = soundfile.read(tmp_path / "hello.wav")
    assert 1.0 < len(samples) / rate < 6.0
    assert abs(samples).max() > 0.05


def test_python_streaming(server: Server) -> None:
    """Catches a changed header or body format, and a reply that comes in one piece."""
    run = subprocess.run(
        [sys.executable, "-c", example("python", server)], capture_output=True, text=True, check=True, timeout=120
    )
    lines = run.stdout.splitlines()
    assert len(lines) > 2
    assert re.fullmatch(r"[1-9]\d*\.\d\d s of audio so far", lines[-1])


def test_openai_client(server: Server, tmp_path: Path) -> None:
    """Catches a client of OpenAI's that has to be told more than the address."""
    subprocess.run([sys.executable, "-c", example("openai", server)], cwd=tmp_path, check=True, timeout=120)
    samples, rate = soundfile.read(tmp_path / "speech.mp3")
    assert rate == 24000
    assert 1.0 < len(samples) / rate < 6.0
    assert abs(samples).max() > 0.05
