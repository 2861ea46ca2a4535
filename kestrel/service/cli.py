"""The command `kestrel`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from rich.console import Console

from kestrel import __version__

app = typer.Typer(
    help="Kestrel, a text-to-speech server on its own native engine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
out = Console()
err = Console(stderr=True, highlight=False)

FAILED, USAGE, INTERRUPTED = 1, 2, 130
# A player goes by the name: a WAV file must not be called one of these.
OTHER_FORMATS = (".mp3", ".opus", ".ogg", ".aac", ".m4a", ".mp4", ".flac", ".pcm", ".raw")

ModelOption = Annotated[
    str | None, typer.Option(help="Name of a built-in model, or the path of a GGUF file.", show_default="default")
]
ThreadsOption = Annotated[int | None, typer.Option(min=0, help="Compute threads; 0: one a physical core.")]


@contextmanager
def friendly() -> Iterator[None]:
    """One line on standard error and an exit code instead of a traceback, for every failure a user can cause."""
    # Imported here so that `--help` does not load the engine.
    from kestrel.engine import EngineError, TextError
    from kestrel.engine.convert import ConvertError
    from kestrel.service.errors import ApiError, validation_error
    from kestrel.service.keys import KeysError
    from kestrel.service.planner import PlanError
    from kestrel.service.server import BindError

    try:
        yield
    except KeyboardInterrupt:
        _stop("interrupted", INTERRUPTED)
    except ApiError as error:
        _stop(error.message, USAGE)
    except ValidationError as error:
        _stop(validation_error(error.errors()).message, USAGE)
    except (TextError, PlanError) as error:
        _stop(str(error), USAGE)
    except (EngineError, ConvertError, BindError, KeysError, OSError) as error:
        _stop(str(error), FAILED)


def _stop(message: str, code: int) -> None:
    err.print(f"error: {message}", markup=False, soft_wrap=True)
    raise typer.Exit(code)


def _given(**options: Any) -> dict[str, Any]:
    """The options that were given; the others leave the setting to the environment or its default."""
    return {name: value for name, value in options.items() if value is not None}


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"kestrel {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    """Kestrel, a text-to-speech server on its own native engine."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.", show_default="8080")] = None,
    model: ModelOption = None,
    threads: ThreadsOption = None,
    slots: Annotated[int | None, typer.Option(help="Requests spoken at the same time.", show_default="4")] = None,
) -> None:
    """Serve over HTTP. Prints the address when it can speak; logs JSON lines to standard output.

    Every other setting is an environment variable `KESTREL_*`; see docs/settings.md.
    """
    with friendly():
        from kestrel.service.app import create_app
        from kestrel.service.logs import configure
        from kestrel.service.server import is_exposed
        from kestrel.service.server import serve as run_server
        from kestrel.service.settings import Settings, unknown_variables

        settings = Settings(**_given(host=host, port=port, model=model, threads=threads, slots=slots))
        configure(settings.log_level)
        for name in unknown_variables(os.environ):
            err.print(f"warning: {name} is not a setting; see docs/settings.md", markup=False, soft_wrap=True)
        if is_exposed(settings.host) and not (settings.api_keys.get_secret_value() or settings.api_keys_file):
            told = f"warning: {settings.host} is reachable for others, and there are no API keys; see docs/settings.md"
            err.print(told, markup=False, soft_wrap=True)
        code = run_server(create_app(settings), settings, lambda line: err.print(line, markup=False, soft_wrap=True))
    raise typer.Exit(code)


@app.command()
def say(
    text: Annotated[str, typer.Argument(help="What to say; `-` reads standard input.")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="WAV file to write; `-` streams it to standard output.")
    ],
    voice: Annotated[str, typer.Option(help="See `kestrel voices`.")] = "default",
    language: Annotated[str | None, typer.Option(help="BCP 47 code.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="The same seed gives the same samples.", show_default="random")
    ] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.", show_default="the model's")] = None,
    top_p: Annotated[float | None, typer.Option(show_default="the model's")] = None,
    top_k: Annotated[int | None, typer.Option(show_default="the model's")] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after this much audio.")] = None,
    normalize: Annotated[bool, typer.Option(help="Read numbers, dates, markdown and so on in words.")] = True,
    model: ModelOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Speak a text into a WAV file. Splits long text as the server does."""
    with friendly():
        from kestrel.service.say import say as speak
        from kestrel.service.schema import SpeechRequest
        from kestrel.service.settings import Settings

        if output == "-" and sys.stdout.isatty():
            _stop("not writing audio to a terminal; give a file, or pipe it to a player", USAGE)
        ending = Path(output).suffix.lower()
        if ending in OTHER_FORMATS:
            _stop(f"`say` writes WAV, not {ending}; name the file .wav (the server gives the other formats)", USAGE)
        words = sys.stdin.read() if text == "-" else text
        request = SpeechRequest(
            text=words, voice=voice, language=language, seed=seed, temperature=temperature, top_p=top_p, top_k=top_k,
            max_seconds=max_seconds, normalize=normalize,
        )  # fmt: skip
        # One slot: one text at a time.
        settings = Settings(**_given(model=model, threads=threads), slots=1)
        speak(request, settings, None if output == "-" else Path(output), err)


@app.command()
def convert(
    source: Annotated[
        Path, typer.Argument(help="Folder with config.json, model.safetensors, codec.pth, tokenizer.json.")
    ],
    target: Annotated[Path, typer.Argument(help="Model file to write.")],
    linears: Annotated[str, typer.Option(help="Storage of the linear layers: f32, f16 or q8_0.")] = "q8_0",
    embeddings: Annotated[str, typer.Option(help="Storage of the embeddings: f32, f16 or q8_0.")] = "f16",
    codec_convs: Annotated[str, typer.Option(help="Storage of the codec's convolutions: f32 or f16.")] = "f16",
) -> None:
    """Convert a published checkpoint to one model file."""
    with friendly():
        from rich.progress import Progress

        from kestrel.engine.convert import Types, convert_checkpoint

        try:
            types = Types(linears=linears, embeddings=embeddings, codec_convs=codec_convs)  # type: ignore[arg-type]
        except ValueError as error:
            raise typer.BadParameter(str(error)) from error
        with Progress(console=err, transient=True) as bar:
            task = bar.add_task("Converting")
            convert_checkpoint(
                source,
                target,
                types=types,
                progress=lambda done, total, name: bar.update(task, completed=done, total=total, description=name),
            )
        err.print(f"Wrote {target} ({target.stat().st_size / 1e6:.1f} MB)", markup=False)


@app.command()
def info(
    model: Annotated[str, typer.Argument(help="Name of a built-in model, or the path of a GGUF file.")] = "default",
    tensors: Annotated[bool, typer.Option("--tensors", help="List every tensor.")] = False,
) -> None:
    """Show what a model file holds: its keys, and its tensors by type."""
    with friendly():
        from kestrel.engine import resolve_model
        from kestrel.service.model_tables import print_model

        print_model(resolve_model(model), out, every_tensor=tensors)


@app.command()
def models() -> None:
    """List the built-in models."""
    with friendly():
        from kestrel.engine import builtin_models
        from kestrel.service.model_tables import models_table

        out.print(models_table(builtin_models()))


@app.command()
def voices(model: ModelOption = None) -> None:
    """List the voices of a model."""
    with friendly():
        from kestrel.engine import resolve_model
        from kestrel.service.model_tables import voices_table

        out.print(voices_table(resolve_model(model or "default")))
