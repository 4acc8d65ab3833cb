"""Holds comments and documents to docs/STYLE.md: counts the constructions that it lists, per 1,000 words of each folder's comments and
of each document, and fails above the ratchet below. Checks the subjects of the branch's commits as well, where git knows them.

    python3 tests/prose_test.py            # the check
    python3 tests/prose_test.py --counts   # the rate of every folder and document
    python3 tests/prose_test.py --write    # sets the ratchet to today's rates, rounded up

Runs its own negative controls first: a checker that cannot fail proves nothing.
"""

import math
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL = 3  # constructions per 1,000 words
FEWEST_WORDS = 150  # below that a single hit decides
MAX_SUBJECT = 72
NO_PROSE = ("tests/golden/", "build/")

# The rate that a folder or document may have until it is reworded; without a row it is GOAL. Lower a number when its text improves
# (--write does).
RATCHET = {
    "session/turn": 4,
    "tests": 4,
    "tests/packaging": 4,
    "tests/page": 4,
}

CONSTRUCTIONS = {
    "noun clause": r"\bwhat (?:is|was|are|were|has|have|comes?|came|goes|runs?|waits?|lies|stands|all|others?|each)\b",
    "stranded relative": r"\bof (?:which|them|it|its own|their own|so many)\b",
    "bare opening": r"(?:^|[.;:] )(?:Of|The same)\b",
    "posture verb": r"\b(?:stands?|lies?|goes on|go on|went on|gone on|comes? back)\b",
    "speech verb": r"\b(?:tells?|told|hears?|heard|says|said)\b",
    "place for time": r"\bbehind\b",
    "vague quantity": r"\b(?:so|as) (?:many|much|long|few)\b",
    "archaic adverb": r"\b(?:likewise|whoever|besides|anew|for want of|nobody|in vain|at one time)\b",
}
TYPES = "feat fix perf refactor test bench docs style build ci chore revert"
SUBJECT = re.compile(rf"^(?:{'|'.join(TYPES.split())})(?:\([a-z0-9_/,-]+\))?!?: [a-z]")
# First words that are no verb in the imperative.
NO_VERB = re.compile(r"^(?:the|a|an|what|who|of|it|its|there|one|no|all|each|every|some|where|when|how|two|\w+(?:ing|ed))$")
VERBS_LIKE_THESE = {"bring", "bed", "embed", "feed", "need", "ping", "seed", "shed", "speed", "string", "swing", "wed"}

CPP = re.compile(r'//([^\n]*)|/\*(.*?)\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def cpp_comments(text):
    """Comments of C++, CUDA or JavaScript, strings left out. Lines of one comment are joined, so that a sentence is one."""
    found, end = [], None
    for match in CPP.finditer(text):
        body = match[1] if match[1] is not None else match[2]
        if body is None:
            continue
        body = re.sub(r"(?m)^\s*[*/]+!?|\*+$", "", body).strip()
        follows = end is not None and re.fullmatch(r"\n[ \t]*", text[end:match.start()])
        if follows and found:
            found[-1] += " " + body
        else:
            found.append(body)
        end = match.end()
    return found


def python_comments(path):
    """Comments and docstrings of a Python file."""
    found, starts_statement = [], True
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                found.append(token.string.lstrip("#! "))
            elif token.type == tokenize.STRING and starts_statement:
                found.append(token.string.strip("rR\"'"))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                starts_statement = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return found


def script_comments(text):
    """Comments of a shell script or a CMake file: lines, neighbours joined."""
    found, last = [], -2
    for number, line in enumerate(text.splitlines()):
        if match := re.match(r"\s*#+(?!!) ?(.*)", line):
            if last == number - 1:
                found[-1] += " " + match[1]
            else:
                found.append(match[1])
            last = number
    return found


def document(text):
    """Prose of a Markdown page, a paragraph, list item or table cell each: code blocks and formulas are none."""
    text = re.sub(r"(?ms)^```.*?^```|<!--.*?-->", "\n\n", text)
    text = re.sub(r"(?m)^(?: {4}|\t).*$", "", text)
    cells = []
    for part in re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.) )", text):
        if part.lstrip().startswith("|"):
            cells += [cell.strip() for line in part.splitlines() for cell in line.strip().strip("|").split(" | ")]
        else:
            cells.append(" ".join(part.lstrip("#-*+> \n").split()))
    return [cell for cell in cells if cell and not set(cell) <= set("-:| ")]


def texts(path):
    """The pieces of prose in a file; inline code and quotations of code are left out."""
    if path.suffix == ".py" or (path.suffix == "" and path.read_bytes()[:30].find(b"python") > 0):
        found = python_comments(path)
    else:
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".md":
            found = document(text)
        elif path.suffix in {".h", ".cpp", ".cu", ".cuh", ".js"}:
            found = cpp_comments(text)
        else:
            found = script_comments(text)
    return [re.sub(r"`[^`]*`", "`", text) for text in found]


def is_ours(name):
    path = Path(name)
    if name.startswith(NO_PROSE):
        return False
    return path.suffix in {".h", ".cpp", ".cu", ".cuh", ".js", ".py", ".sh", ".md", ".cmake"} or (
        path.parts[0] == "scripts" and path.suffix == "") or path.name == "CMakeLists.txt"


def room_of(name):
    """A document is a room by itself; sources count for the innermost of two folders: "engine/model"."""
    parts = name.split("/")
    return name if name.endswith(".md") else "/".join(parts[: min(2, len(parts) - 1)]) or "."


def found_in(text):
    return [(name, match[0]) for name, pattern in CONSTRUCTIONS.items() for match in re.finditer(pattern, text)]


def count(root, names):
    """Room -> (words, [(file, construction, words)])."""
    rooms = {}
    for name in sorted(names):
        words, hits = rooms.setdefault(room_of(name), [0, []])
        for text in texts(root / name):
            words += len(text.split())
            hits += [(name, kind, match, text) for kind, match in found_in(text)]
        rooms[room_of(name)][0] = words
    return rooms


def rate(words, hits):
    return 1000 * len(hits) / max(words, 1)


def complaints_about(rooms, ratchet):
    found = []
    for room, (words, hits) in sorted(rooms.items()):
        allowed = ratchet.get(room, GOAL)
        if words >= FEWEST_WORDS and rate(words, hits) > allowed:
            found.append(f"{room}: {rate(words, hits):.1f} constructions of docs/STYLE.md per 1,000 words; {allowed} are allowed")
            found += [f"    {name}: {kind}: '{match}' in: {' '.join(text.split())[:110]}" for name, kind, match, text in hits[:10]]
    return found


def complaint_about_subject(subject):
    if len(subject) > MAX_SUBJECT:
        return f"{len(subject)} characters; {MAX_SUBJECT} are allowed"
    if subject.startswith(("Merge ", 'Revert "', "fixup! ", "squash! ")):
        return None
    if not SUBJECT.match(subject):
        return "is not `type(scope): verb object`"
    verb = subject.split(": ", 1)[1].split()[0]
    if NO_VERB.match(verb) and verb not in VERBS_LIKE_THESE:
        return f"'{verb}' is no verb in the imperative"
    return None


def git(root, *command):
    try:
        done = subprocess.run(["git", "-C", str(root), *command], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def commits_of_branch(root):
    """(hash, subject) since the branch left main; [] in a shallow clone, an archive, or on main."""
    if git(root, "rev-parse", "--is-shallow-repository") != "false":
        return []
    for main in ("origin/main", "main"):
        if base := git(root, "merge-base", main, "HEAD"):
            log = git(root, "log", "--no-merges", "--format=%h %s", f"{base}..HEAD") or ""
            return [tuple(line.split(" ", 1)) for line in log.splitlines()]
    return []


def files_of(root):
    tracked = git(root, "ls-files")
    names = tracked.splitlines() if tracked else [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
    return [name for name in names if is_ours(name) and (root / name).is_file() and not name.startswith(".")]


def negative_controls():
    """Sentences that the counters must find, sentences that they must not, and subjects of both kinds."""
    bad = ["Returns what is left.", "two rows, each of which is read", "The same of weights in tiles.", "It lies on the device.",
           "The engine tells the session.", "the rows behind it", "as many as fit", "It is made anew."]
    for text, kind in zip(bad, CONSTRUCTIONS, strict=True):
        assert [name for name, _ in found_in(text)] == [kind], (text, kind, found_in(text))
    good = ["Returns the pending writes.", "Preempts the turn: evicts its KV cache and requeues it.", "Number of rows in the tile.",
            "offset of the first key"]
    assert not any(found_in(text) for text in good)
    assert cpp_comments('f("// what is");  // a\n// b\nint x;  /* c */') == ["a b", "c"]
    assert document("# Head\n\n```\nwhat is\n```\ntext\ngoes on\n\n| a | b |\n| --- | --- |\n| c | d |") == ["Head", "text goes on", *"abcd"]
    full = "what is left " * FEWEST_WORDS
    assert complaints_about({"a": (FEWEST_WORDS, [("f", "k", "m", full)])}, {})
    assert not complaints_about({"a": (FEWEST_WORDS, [("f", "k", "m", full)])}, {"a": 7})
    for subject in ("feat(cuda): fuse the norm into the all-reduce", "fix: embed rows once", "docs: add a glossary", "test(ws): ping twice"):
        assert complaint_about_subject(subject) is None, subject
    for subject in ("test(system): what begins a text", "feat: added a norm", "fix the norm", "feat(ws): Send", "feat: " + "x" * 70,
                    "perf(cuda): the norm comes out of its kernel"):
        assert complaint_about_subject(subject), subject


def show(rooms):
    for room, (words, hits) in sorted(rooms.items(), key=lambda item: -rate(*item[1])):
        if words >= FEWEST_WORDS:
            print(f"{rate(words, hits):6.1f}  {words:7} words  {room}")


def write_ratchet(rooms):
    rows = [f'    "{room}": {math.ceil(rate(words, hits))},\n' for room, (words, hits) in sorted(rooms.items())
            if words >= FEWEST_WORDS and rate(words, hits) > GOAL]
    this = Path(__file__)
    before, rest = this.read_text().split("RATCHET = {\n", 1)
    this.write_text(before + "RATCHET = {\n" + "".join(rows) + rest[rest.index("}\n"):])


def main():
    negative_controls()
    rooms = count(ROOT, files_of(ROOT))
    if "--counts" in sys.argv:
        return show(rooms)
    if "--write" in sys.argv:
        return write_ratchet(rooms)
    found = complaints_about(rooms, RATCHET)
    found += [f"commit {commit} '{subject}': {why}" for commit, subject in commits_of_branch(ROOT)
              if (why := complaint_about_subject(subject))]
    if found:
        sys.exit("\n".join(found))
    print(f"prose: {sum(words for words, _ in rooms.values())} words in {len(rooms)} folders and documents")


if __name__ == "__main__":
    main()
