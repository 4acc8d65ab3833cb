"""Every page is one click from the README, and every link inside the repository resolves: the file, and the heading after '#'.
Files that a page names in code (`engine/scheduler.h`) exist.

    python3 tests/links_test.py

Runs its own negative controls first: a checker that cannot fail proves nothing.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_READ = ("tests/golden/", "build/")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FOLDERS = "base kernels cache engine session ws clients tools tests scripts docs deploy".split()
NAMED = re.compile(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+?(?:\.(?:h|cpp|cu|cuh|py|js|json|yml|yaml|cfg|conf|sql|sbatch|cmake)|/))`")


def without_code(text):
    return re.sub(r"(?ms)^```.*?^```", "", text)


def anchors(text):
    """GitHub's names of the headings of a page."""
    found = set()
    for heading in re.findall(r"(?m)^#+ (.+)$", without_code(text)):
        slug = re.sub(r"[^\w\- ]", "", re.sub(r"\]\([^)]*\)", "", heading).lower()).replace(" ", "-")
        found.add(slug)
    return found


def pages_of(root):
    done = subprocess.run(["git", "-C", str(root), "ls-files", "*.md"], capture_output=True, text=True)
    names = done.stdout.split() if done.returncode == 0 and done.stdout else [
        path.relative_to(root).as_posix() for path in root.rglob("*.md")]
    return [name for name in names if not name.startswith(NOT_READ) and (root / name).is_file()]


def complaints_about(root, names):
    found, from_readme = [], {"README.md"}
    for name in names:
        page = root / name
        text = page.read_text(encoding="utf-8")
        for link in LINK.findall(without_code(text)):
            if re.match(r"[a-z]+:", link):
                continue
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists():
                found.append(f"{name}: {link}: there is no such file")
                continue
            if name == "README.md" and target.is_relative_to(root):
                from_readme.add(target.relative_to(root).as_posix())
            if anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                found.append(f"{name}: {link}: there is no such heading")
        found += [f"{name}: {path}: there is no such file" for path in NAMED.findall(text)
                  if not (root / path).exists() and not (page.parent / path).exists()]
    return found + [f"{name}: the README does not link to it" for name in names if name not in from_readme]


def negative_controls():
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "README.md").write_text("# A b\n[x](a.md#the-c) [y](gone.md) [z](#a-b) [w](#c) `engine/gone.h`\n```\n[v](no.md)\n```\n")
        (root / "a.md").write_text("# The `c`?\n")
        (root / "b.md").write_text("")
        found = complaints_about(root, ["README.md", "a.md", "b.md"])
        wanted = ["README.md: gone.md: there is no such file", "README.md: #c: there is no such heading",
                  "README.md: engine/gone.h: there is no such file", "b.md: the README does not link to it"]
        assert found == wanted, found


def main():
    negative_controls()
    names = pages_of(ROOT)
    if found := complaints_about(ROOT, names):
        sys.exit("\n".join(found))
    print(f"links: {len(names)} pages")


if __name__ == "__main__":
    main()
