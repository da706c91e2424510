"""Text that a device made, fit to be kept and shown."""

import unicodedata

from hereabouts.schemas.limits import MAX_LABEL_CHARS


def clean_label(text: str | None, max_chars: int = MAX_LABEL_CHARS) -> str | None:
    """The text without control, format and unassigned characters, its spaces collapsed, cut; None when nothing is left.

    Bidirectional overrides are format characters: with them a name could be shown as another.
    """
    if text is None:
        return None
    # Bounded before the work is done: a frame may hold 25 MiB.
    kept = "".join(c if not unicodedata.category(c).startswith("C") else " " for c in text[: 8 * max_chars])
    return " ".join(kept.split())[:max_chars].rstrip() or None
