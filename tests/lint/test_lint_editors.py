"""Rules that need no engine work in plain ast-grep, as references/lint-timing.md says."""

import json
import re
import subprocess
from pathlib import Path

from lint.lint_command import BAD, FIXABLE, SCRIPTS, Lint, Project
from perf_timing.lint.catalog import RULES, load_rules
from perf_timing.lint.config import KEYS
from perf_timing.lint.files.discover import KINDS, MARKDOWN_KINDS
from perf_timing.lint.parsing import astgrep

PAGE = (SCRIPTS.parent / "references" / "lint-timing.md").read_text(encoding="utf-8")


def scan(folder: Path) -> list[dict[str, object]]:
    """What plain ast-grep finds in `folder` with the rule files as they are."""
    (folder / "sgconfig.yml").write_text(f"ruleDirs: [{json.dumps(str(RULES))}]\n")
    command = [astgrep.executable(), "scan", "--json=compact", "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1), done.stderr
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_the_folder_of_rules_is_a_project_of_ast_grep(project: Project) -> None:
    found = scan(project({"a.py": BAD, "b.py": FIXABLE}))
    ids = {str(match["ruleId"]) for match in found}
    assert any(rule.startswith("nvtx-unknown-api") for rule in ids)
    assert any(rule.startswith("profiler-removed-name") for rule in ids)
    for match in found:
        assert match["note"]
        assert "$" not in str(match["message"])


def test_every_rule_file_says_where_its_page_is() -> None:
    for rule in load_rules():
        if rule.path.suffix == ".yml":
            assert f"url: references/rules.md#{rule.name}\n" in rule.path.read_text("utf-8")


def test_the_page_names_every_kind_key_and_json_field(lint: Lint, project: Project) -> None:
    for ending in (*KINDS, *MARKDOWN_KINDS):
        assert re.search(rf"[` ]{re.escape(ending)}[` ]", PAGE), ending
    for key in KEYS:
        assert key in PAGE, key
    project({"a.py": BAD})
    for key in (*lint("a.py", "--format", "json").findings[0], "cell"):
        assert f"`{key}`" in PAGE, key


def test_the_settings_on_the_page_are_accepted(lint: Lint, project: Project) -> None:
    block = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert block
    project({"pyproject.toml": block[1], "a.py": BAD})
    run = lint("a.py")
    assert (run.status, run.err) == (1, "")


def test_the_language_server_starts_on_the_rules(project: Project) -> None:
    folder = project({"a.py": BAD})
    scan(folder)
    body = json.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}},
        }
    )
    done = subprocess.run(
        [astgrep.executable(), "lsp"],
        input=f"Content-Length: {len(body)}\r\n\r\n{body}",
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert '"capabilities"' in done.stdout
