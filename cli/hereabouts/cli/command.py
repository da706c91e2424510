"""How this command is called from where the person stands, for the texts that tell what to type next."""

import shutil
import sys
from pathlib import Path


def command(rest: str = "") -> str:
    """`hereabouts …` if that works here, else the path that does, such as `.venv/bin/hereabouts …`."""
    script = Path(sys.executable).with_name("hereabouts")
    found = shutil.which("hereabouts")
    if found is not None and Path(found).resolve() == script.resolve():
        name = "hereabouts"
    elif script.is_relative_to(Path.cwd()):
        name = str(script.relative_to(Path.cwd()))
    else:
        name = str(script)
    return f"{name} {rest}".rstrip()
