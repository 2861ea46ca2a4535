"""The converter's one error."""


class ConvertError(Exception):
    """A source file, key or tensor is missing or wrong; the message names it and says what was expected."""
