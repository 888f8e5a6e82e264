"""The workflows, the Makefile and CI's script: pinned, modest, and in step."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAY_WRITE = {
    ("publish", "notebooks"): {"contents": "write"},
    ("publish", "deploy"): {"pages": "write", "id-token": "write"},
    ("canary", "report"): {"issues": "write"},
}
# An action by full commit, with the version for the reader and for update tools.
PINNED = re.compile(r"[\w.-]+/[\w.-]+(/[\w.-]+)*@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def workflow(path: Path) -> dict:
    """A workflow; YAML 1.1 reads its key ``on`` as true."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs() -> list[tuple[str, str, dict]]:
    """Every job with the names of its workflow and of itself."""
    return [
        (path.stem, name, job)
        for path in FILES
        for name, job in workflow(path)["jobs"].items()
    ]


def commands() -> str:
    """Everything that the workflows and CI's script run."""
    steps = [step for _, _, job in jobs() for step in job["steps"]]
    shell = "\n".join(step.get("run", "") for step in steps)
    return shell + (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def targets() -> set[str]:
    """The Makefile's targets."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z]+):", text, flags=re.MULTILINE))


def test_there_are_workflows_to_test():
    assert [path.stem for path in FILES] == ["canary", "publish", "test"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses:\s*(.+)$", text, flags=re.MULTILINE)
    assert used
    assert not [use for use in used if not PINNED.match(use)]


def test_one_action_has_one_commit_everywhere():
    text = "".join(path.read_text(encoding="utf-8") for path in FILES)
    used = set(re.findall(r"uses:\s*(\S+)@(\S+)", text))
    assert len(used) == len({name for name, _ in used})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_workflows_start_with_no_right_to_write(path):
    assert workflow(path)["permissions"] in ({}, {"contents": "read"})


def test_only_the_named_jobs_may_write():
    writing = {
        (file, name): job["permissions"]
        for file, name, job in jobs()
        if "write" in job.get("permissions", {}).values()
    }
    assert writing == MAY_WRITE


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_workflow_runs_strangers_code_with_rights(path):
    triggers = workflow(path)[True]
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)


def test_jobs_end_and_checkouts_leave_no_token():
    for file, name, job in jobs():
        assert job["timeout-minutes"] <= 60, (file, name)
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, (file, name)


def test_shell_gets_values_through_variables_only():
    for file, name, job in jobs():
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), (file, name)


def test_every_make_target_that_is_called_exists():
    documents = ("README.md", "CONTRIBUTING.md")
    told = "".join((ROOT / name).read_text(encoding="utf-8") for name in documents)
    called = set(re.findall(r"\bmake ([a-z]+)", commands() + told))
    assert {"book", "test", "colab", "canary"} <= called
    assert called <= targets()


def test_every_script_that_is_called_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = set(re.findall(r"\btools/\w+\.\w+", commands() + makefile))
    assert called
    assert not [path for path in called if not (ROOT / path).exists()]


def test_make_help_lists_every_target():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, flags=re.MULTILINE)[1].split()
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    listed = re.findall(r"^  make (\w+)\t", shown.stdout, flags=re.MULTILINE)
    assert sorted(listed) == sorted(phony) == sorted(targets())


def test_publishing_fills_in_its_own_addresses():
    variables = workflow(ROOT / ".github/workflows/publish.yml")["env"]
    assert set(variables) == {"BOOK_REPOSITORY", "BOOK_REF", "BOOK_BRANCH", "BOOK_SITE"}
    assert variables["BOOK_REF"] == "${{ github.sha }}"


def test_scripts_can_be_run_and_are_sound_shell():
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    for shell, path in (
        ("bash", ".ci/run"),
        ("sh", "tools/setup.sh"),
        ("sh", "tools/find_python.sh"),
    ):
        subprocess.run([shell, "-n", ROOT / path], check=True)
