"""Docs, docstrings, comments and test names contain no words of headless clauses and of personification."""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "configs", "deployments", "docs", "flows", "model", "tasks", "tests")
BANNED = re.compile(
    r"\b(what(?! to (?:type|do)\b)|whom|whoever|nobody|anybody|somebody|everybody|of which|the ones? that"
    r"|(?:is|are|was|were) (?:told|asked)|(?:says?|tells?|knows?|speaks?) of)\b",
    re.IGNORECASE,
)
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)


def python_text(source: str) -> str:
    """Return the docstrings, the comments and the names of tests, one a line."""
    found = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(ast.get_docstring(node) or "")
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            found.append(node.name.replace("_", " "))
    return "\n".join(found)


def test_banned_words_are_absent() -> None:
    paths = [
        path
        for folder in FOLDERS
        for kind in ("py", "md", "yml", "yaml")
        for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    problems = []
    for path in (*ROOT.glob("*.md"), *paths):
        text = path.read_text(encoding="utf-8")
        prose = CODE.sub("", python_text(text) if path.suffix == ".py" else text)
        problems += [f"{path.relative_to(ROOT)}: {line.strip()}" for line in prose.splitlines() if BANNED.search(line)]
    assert not problems, "\n".join(problems)


def test_banned_words_are_found() -> None:
    assert BANNED.search(python_text('def test_it():\n    """What nobody reads."""\n'))
    assert BANNED.search(python_text("x = 1  # the one that is told\n"))
    assert not BANNED.search(python_text("# say what to type\n"))
