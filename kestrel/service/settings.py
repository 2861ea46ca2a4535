"""Settings of the service: environment variables `KESTREL_*`, each documented under its field.

`settings_page()` renders the page of the documentation from the class, so the two cannot drift.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from kestrel.service.planner import MAX_PIECE_CHARS, MIN_PIECE_CHARS
from kestrel.service.web import origins

_PREFIX = "KESTREL_"
_INTRODUCTION = """# Settings

Environment variables of `kestrel serve`; the command-line options of the same names win over them. This page is made
from the class `Settings` (`python -m kestrel.service.settings`).
"""
# read by the engine's binding and by the native build
_ELSEWHERE = {"KESTREL_LIBRARY", "KESTREL_GGML_CACHE", "KESTREL_GGML_SOURCE", "KESTREL_CPU"}


def _power_of_two(value: int) -> int:
    if value not in (1, 2, 4, 8, 16):
        raise ValueError("must be 1, 2, 4, 8 or 16")
    return value


class Settings(BaseSettings):
    """Every knob of `kestrel serve`. Command-line options win over the environment."""

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="ignore", frozen=True, hide_input_in_errors=True)

    host: str = Field(default="127.0.0.1", description="Address to listen on; 0.0.0.0 for every interface.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port to listen on; 0 picks a free one.")
    model: str = Field(default="default", description="`default` (the embedded voice) or the path of a GGUF file.")
    backend: Literal["auto", "cpu", "metal"] = Field(default="auto", description="Where the codec runs.")
    threads: int = Field(default=0, ge=0, le=256, description="Compute threads; 0 means one a physical core.")
    slots: int = Field(default=4, ge=1, le=64, description="Requests that are spoken at the same time.")
    queue_size: int = Field(
        default=16, ge=0, le=10_000, description="Requests that may wait; more are answered with 429."
    )
    max_audio_seconds: float = Field(
        default=7200.0, gt=0, description="Audio that may be in the making or wait, all requests together; more: 429."
    )
    client_concurrency: int = Field(
        default=0,
        ge=0,
        description="Requests of one API key (without keys: one address) at the same time; 0: no limit.",
    )
    client_requests_per_minute: float = Field(
        default=0.0, ge=0, description="Requests and WebSocket utterances of one client, on average; 0: no limit."
    )
    client_burst: int = Field(default=10, ge=1, description="Requests that a client may send at once, after a pause.")
    max_text_chars: int = Field(
        default=5000, ge=1, le=1_000_000, description="Longest text of a request, in characters."
    )
    max_body_bytes: int = Field(
        default=262_144, ge=1024, description="Largest request body, checked before it is parsed."
    )
    max_header_bytes: int = Field(
        default=16_384, ge=1024, description="Largest head of a request, checked before it is parsed; 431 beyond."
    )
    api_keys: SecretStr = Field(
        default=SecretStr(""),
        description="Comma-separated API keys. With any, `/v1/...` and `/metrics` need one. Empty: open to everyone.",
    )
    api_keys_file: str = Field(default="", description="File with one API key a line; `#` begins a comment line.")
    cors_origins: str = Field(
        default="", description="Comma-separated origins of web pages that may use this server, or `*`. Empty: none."
    )
    max_seconds: float = Field(default=600.0, gt=0, le=86_400, description="Longest audio of a request, in seconds.")
    piece_chars: int = Field(
        default=0,
        ge=0,
        le=2000,
        description="Longest piece of a text that is spoken as one utterance; 0: what the model was trained on, or "
        f"{MAX_PIECE_CHARS}.",
    )
    piece_min_chars: int = Field(
        default=MIN_PIECE_CHARS, ge=1, le=2000, description="A sentence end closes a piece that is at least this long."
    )
    first_chunk_frames: int = Field(default=2, ge=1, le=16, description="Codec frames of the first chunk of a stream.")
    max_chunk_frames: Annotated[int, AfterValidator(_power_of_two)] = Field(
        default=16, description="Chunks double from the first one up to this."
    )
    read_ahead_seconds: float = Field(
        default=10.0, gt=0, description="Streams: with this much unsent audio the next piece waits for the client."
    )
    live_idle_seconds: float = Field(
        default=300.0,
        gt=0,
        description="WebSocket: a client that is silent for so long, with nothing to hear, is closed.",
    )
    request_timeout: float = Field(
        default=600.0, gt=0, description="Seconds a request may take, waiting included; of a job, each sentence."
    )
    grace_seconds: float = Field(
        default=30.0, ge=0, description="Seconds that running requests get to finish on SIGTERM."
    )
    jobs_folder: str = Field(
        default="",
        description="Folder of the jobs' state and audio, for one server alone. Empty: `kestrel/jobs` in "
        "`$XDG_STATE_HOME` or `~/.local/state`, and no jobs where that cannot be used.",
    )
    jobs_queue_size: int = Field(
        default=100, ge=1, le=1000, description="Jobs that may be unfinished; more are answered with 429."
    )
    jobs_at_once: int = Field(
        default=1, ge=1, le=64, description="Jobs that are spoken at the same time, each holding at most one slot."
    )
    jobs_max_text_chars: int = Field(
        default=1_000_000, ge=1, le=20_000_000, description="Longest text of a job, in characters."
    )
    jobs_max_body_bytes: int = Field(default=8_388_608, ge=1024, description="Largest request body of a job.")
    jobs_max_seconds: float = Field(
        default=86_400.0, gt=0, le=864_000, description="Longest audio of a job, in seconds."
    )
    jobs_disk_bytes: int = Field(
        default=10 * 2**30, ge=1, description="Bytes that all jobs may take; jobs that would not fit are refused."
    )
    jobs_retention_seconds: float = Field(
        default=604_800.0,
        gt=0,
        le=315_360_000,
        description="Seconds that a job is kept after it has ended; a job may ask for less.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Lowest level that is logged."
    )
    log_text: bool = Field(default=False, description="Write the texts of requests to the log.")

    @field_validator("cors_origins")
    @classmethod
    def _origins(cls, value: str) -> str:
        origins(value)
        return value


def settings_page() -> str:
    """Markdown page of every setting: variable, default, meaning. `docs/settings.md` is this text."""
    rows = [_INTRODUCTION, "| Variable | Default | Meaning |", "|---|---|---|"]
    for name, info in Settings.model_fields.items():
        default = f"`{info.default}`" if str(info.default) else ""
        rows.append(f"| `{_PREFIX}{name.upper()}` | {default} | {info.description} |")
    return "\n".join(rows) + "\n"


def unknown_variables(environment: Iterable[str]) -> list[str]:
    """Variables with our prefix that no setting has: most likely misspelt. Worth a warning, not a refusal to start."""
    known = {f"{_PREFIX}{name.upper()}" for name in Settings.model_fields} | _ELSEWHERE
    return sorted(name for name in environment if name.upper().startswith(_PREFIX) and name.upper() not in known)


if __name__ == "__main__":
    print(settings_page(), end="")
