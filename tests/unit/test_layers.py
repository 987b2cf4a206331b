"""Layers point down only: adapters -> backends -> runtime."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "runtime": {"runtime"},
    "backends": {"runtime", "backends"},
    "adapters": {"runtime", "backends", "adapters"},
}


def modules(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module or ""


@pytest.mark.parametrize("layer", ALLOWED)
def test_a_layer_imports_only_itself_and_what_is_below(layer: str) -> None:
    """`diarist.X.…` is imported in full, from allowed layers only."""
    found = modules(layer)
    assert len(found) > 3
    for path in found:
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "diarist":
                inside = parts[1] if len(parts) > 1 else None
                right = inside in ALLOWED[layer] if inside else layer == "adapters"
                assert right, f"{path.relative_to(ROOT)} imports {name}"


def test_the_front_door_is_a_table_of_contents() -> None:
    """`diarist/__init__.py` only imports, and `__all__` is sorted and complete."""
    tree = ast.parse((ROOT / "diarist" / "__init__.py").read_text(encoding="utf-8"))
    kinds = {type(node) for node in tree.body}
    assert kinds <= {ast.Expr, ast.ImportFrom, ast.Assign}
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    import diarist

    assert set(diarist.__all__) == imported
    assert diarist.__all__ == sorted(diarist.__all__)


def test_files_are_short() -> None:
    """The median file has up to 150 lines, none more than 500."""
    tops = ("runtime", "backends", "adapters", "tests", "load_tests")
    sizes = sorted(
        len(path.read_text(encoding="utf-8").splitlines()) for top in tops for path in (ROOT / top).rglob("*.py")
    )
    assert sizes[-1] <= 500
    assert sizes[len(sizes) // 2] <= 150
