"""The command line: what it prints, where, and with which exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def kestrel(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "kestrel", *arguments], check=False, capture_output=True, input=stdin, timeout=120
    )


def test_info_lists_keys_types_and_tensors() -> None:
    """Catches a table that crashes on an array, a long string or a byte array, or loses tensors."""
    done = kestrel("info", "default", "--tensors")
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr
    for expected in (
        "general.architecture",
        "dualar",
        "kestrel.lexicon",
        "bytes",
        "Tensors by type",
        "embed_tokens.weight",
    ):
        assert expected in text


def test_models_and_voices() -> None:
    """What they list must be what --model and --voice take."""
    assert "default" in kestrel("models").stdout.decode()
    assert "default" in kestrel("voices").stdout.decode()


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["info", "nothing.gguf"], 1, "built-in models: default"),
        (["info", __file__], 1, "not GGUF"),
        (["voices", "--model", "nothing"], 1, "built-in models: default"),
        (["say", "Hi.", "-o", "{tmp}/x.wav", "--voice", "alto"], 2, "valid: default"),
        (["say", "...", "-o", "{tmp}/x.wav"], 2, "letter or digit"),
        (["say", "Hi.", "-o", "{tmp}/x.MP3"], 2, "writes WAV"),
        (["say", "Hi.", "-o", "{tmp}/none/x.wav"], 1, "No such file"),
        (["say", "Hi.", "-o", "{tmp}/x.wav", "--top-p", "2"], 2, "less than or equal to 1"),
        (["say", "Hi.", "-o", "{tmp}/x.wav", "--model", "nothing"], 1, "built-in models: default"),
        (["serve", "--port", "99999"], 2, "port: "),
        (["convert", "{tmp}", "{tmp}/x.gguf"], 1, "config.json"),
        (["convert", "{tmp}", "{tmp}/x.gguf", "--linears", "q3"], 2, "q8_0"),
    ],
)
def test_mistakes_are_one_line_with_an_exit_code(arguments: list[str], code: int, told: str, tmp_path: Path) -> None:
    """Catches tracebacks, a success code for a failure, and half-written files."""
    done = kestrel(*(argument.replace("{tmp}", str(tmp_path)) for argument in arguments))
    message = done.stderr.decode()
    assert done.returncode == code, message
    assert told in " ".join(message.split())
    assert "Traceback" not in message
    assert list(tmp_path.iterdir()) == []


def test_say_reads_standard_input_and_keeps_standard_output_clean(tmp_path: Path) -> None:
    """A progress bar or a summary inside the WAV would be heard as noise."""
    target = tmp_path / "x.wav"
    filed = kestrel("say", "-", "-o", str(target), "--seed", "3", "--threads", "1", stdin=b"Hello.")
    piped = kestrel("say", "Hello.", "-o", "-", "--seed", "3", "--threads", "1")
    assert filed.returncode == piped.returncode == 0
    assert filed.stdout == b""
    assert piped.stdout[:4] == b"RIFF"
    assert piped.stdout[44:] == target.read_bytes()[44:]
    assert b"seed 3" in piped.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.wav"]
