"""Emoji spoken by their CLDR names."""

from __future__ import annotations

from kestrel.service.text.trace import Edit


def name_emoji(text: str) -> list[Edit]:
    """An edit for every emoji: "thumbs up" for 👍. Signs that are emoji only by courtesy (©, ™) are left alone."""
    import emoji  # here, because its table costs start-up time that few requests need

    edits: list[Edit] = []
    for found in emoji.emoji_list(text):
        written = found["emoji"]
        name = emoji.EMOJI_DATA[written]["en"].strip(":").replace("_", " ").replace("-", " ")
        if len(written) > 1 or ord(written) > 0x2122:
            edits.append(Edit(found["match_start"], found["match_end"], f" {name} "))
    return edits
