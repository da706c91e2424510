"""The page's modules: their own unit tests by Node's test runner, and their types by tsc."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODE = shutil.which("node")

MIN_NODE_MAJOR = 20
"""`node:test` with mocked timers."""


def _node_major() -> int:
    if NODE is None:
        return 0
    version = subprocess.run([NODE, "--version"], capture_output=True, text=True, check=True).stdout
    return int(version.removeprefix("v").split(".")[0])


pytestmark = [
    pytest.mark.npm,
    pytest.mark.skipif(
        _node_major() < MIN_NODE_MAJOR,
        reason=f"needs Node.js {MIN_NODE_MAJOR} or newer on PATH (Debian: apt install nodejs)",
    ),
]


@pytest.mark.parametrize("file", sorted(HERE.glob("*.test.js")), ids=lambda file: file.name.removesuffix(".test.js"))
def test_page_module(file: Path) -> None:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--no-warnings", "--test", "--test-reporter=spec", str(file)], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_of_the_page_modules() -> None:
    tsc = ROOT / "node_modules" / ".bin" / "tsc"
    if not tsc.exists():
        pytest.skip("needs the packages of package-lock.json (run: npm ci)")
    done = subprocess.run([str(tsc), "--project", "jsconfig.json"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
