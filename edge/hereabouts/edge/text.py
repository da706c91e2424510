"""Text that a client made, fit to be kept and shown."""

import unicodedata

from hereabouts.schemas.limits import MAX_LABEL_CHARS


def clean(text: str | None, max_chars: int = MAX_LABEL_CHARS) -> str | None:
    """One line without control, format, surrogate, private and unassigned characters, cut; None when nothing is left.

    Bidirectional overrides and zero-width characters are format characters (Unicode category Cf): with them one name
    can be shown as another.
    """
    if text is None:
        return None
    # Cut first: the work must not grow with what a client sends.
    kept = "".join(" " if unicodedata.category(c)[0] in "CZ" else c for c in text[: 8 * max_chars])
    return " ".join(kept.split())[:max_chars].rstrip() or None
