"""What one request says, piece by piece: the decisions shared by the server and `kestrel say`, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from kestrel.engine import Result, Sampling, Utterance
from kestrel.service.planner import MAX_PIECE_CHARS, MIN_PIECE_CHARS
from kestrel.service.script import Piece, write_script
from kestrel.service.text import Pause, Switches, language_rules

SHORTEST_SECONDS = 0.1
"""With less than this left of `max_seconds`, the next piece is not started."""

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Speech:
    """A text and how to say it. `max_seconds` bounds the audio of all pieces and pauses together.

    `languages` are the model's; they decide whose rules read the text if `language` is None and there is one.
    """

    text: str
    voice: str = "default"
    language: str | None = None
    languages: tuple[str, ...] = ("en",)
    switches: Switches = field(default_factory=Switches)
    seed: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    max_seconds: float = 600.0
    first_chunk_frames: int = 2
    max_chunk_frames: int = 16
    piece_chars: int = MAX_PIECE_CHARS
    piece_min_chars: int = MIN_PIECE_CHARS

    def script(self) -> list[Piece | Pause]:
        """What to speak, and when to be silent, in order.

        Raises PlanError when there is nothing to say, a word is too long or a pause tag is malformed, and
        CharactersError, before any audio is made, when the model's only language has no sound for a character.
        """
        language = language_rules(self.language or (self.languages[0] if len(self.languages) == 1 else None))
        script = write_script(self.text, self.switches, language, self.piece_chars, self.piece_min_chars)
        if language is not None and len(self.languages) == 1:
            language.check("".join(item.text for item in script if isinstance(item, Piece)))
        return script

    def utterance(self, piece: str, index: int, spoken_seconds: float) -> Utterance:
        """Piece number `index` as an engine utterance, after `spoken_seconds` of audio of the pieces before it."""
        return Utterance(
            text=piece,
            voice=self.voice,
            language=self.language,
            seed=piece_seed(self.seed, index),
            sampling=self.sampling,
            max_seconds=self.max_seconds - spoken_seconds,
            first_chunk_frames=self.first_chunk_frames,
            max_chunk_frames=self.max_chunk_frames,
        )

    def exhausted(self, spoken_seconds: float) -> bool:
        """True when `max_seconds` leaves no room for another piece."""
        return self.max_seconds - spoken_seconds < SHORTEST_SECONDS


def piece_seed(seed: int, index: int) -> int:
    """Seed of piece `index`: the request's own for the first, then well mixed (SplitMix64, Steele et al. 2014).

    Pieces with one seed would share their draws; neighbouring seeds would make piece 1 of seed 7 piece 0 of seed 8.
    """
    if index == 0:
        return seed
    z = (seed + index * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the pieces of one request. `finish_reason` is `eos` only if every piece ended by itself."""

    finish_reason: str = ""
    pieces: int = 0
    frames: int = 0
    audio_seconds: float = 0.0
    pause_seconds: float = 0.0  # of audio_seconds, those that no engine made
    wall_seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

    def add(self, result: Result) -> Totals:
        """The totals with one more piece."""
        phases = {name: phase.seconds for name, phase in result.phases.items()}
        return Totals(
            finish_reason=result.finish_reason if self.finish_reason in ("", "eos") else self.finish_reason,
            pieces=self.pieces + 1,
            frames=self.frames + result.frames,
            audio_seconds=self.audio_seconds + result.audio_seconds,
            pause_seconds=self.pause_seconds,
            wall_seconds=self.wall_seconds + result.wall_seconds,
            phases=add_phases([self.phases, phases]),
        )

    def silent(self, seconds: float) -> Totals:
        """The totals with a pause."""
        return replace(self, audio_seconds=self.audio_seconds + seconds, pause_seconds=self.pause_seconds + seconds)

    @property
    def spoken_seconds(self) -> float:
        """Audio that the engine made, the base of every RTF."""
        return self.audio_seconds - self.pause_seconds

    def cut_short(self) -> Totals:
        """The totals of a text whose last pieces did not fit into `max_seconds`."""
        return replace(self, finish_reason="length")


def add_phases(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """Seconds a phase, summed."""
    total: dict[str, float] = {}
    for part in parts:
        for name, seconds in part.items():
            total[name] = total.get(name, 0.0) + seconds
    return total
