"""Checks that the unnamed namespaces of a library's sources have different names in them: the build compiles the sources
of a library together, in groups (ringside_unity in CMakeLists.txt). Functions may be overloaded, and several files may
define one alias. No name there is that of a function or type that an included header declares: it would hide that one
from the other sources, and where an argument converts, they would call it.

    python3 tests/local_names_test.py [root]

Runs its own negative controls first.
"""

import collections
import functools
import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("base", "cache", "kernels", "engine", "session", "ws", "clients")
ALONE = re.compile("kernels/(cuda|cpu/isa)/|base/(log|asio/asio).cpp")  # compiled one by one
LITERAL = re.compile(r'//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)
TYPE = re.compile(r"(?:template\s*<.*?>\s*)?(?:struct|class|enum class|enum|union)\s+(\w+)")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
SCOPE = re.compile(r"^namespace (ringside[\w:]*) \{", re.M)
FUNCTION = re.compile(r"^(?!\s|//|#|using|class|struct|enum|template|namespace|\}|static_assert)[^\n(;={]*?\b(\w+)\(", re.M)
TYPE_AT_SCOPE = re.compile(r"^(?:using (\w+) =|(?:struct|class|enum class|enum|union) (\w+)\b(?!;))", re.M)
ALIAS = re.compile(r"(?:template\s*<.*?>\s*)?(?:using|namespace)\s+(\w+)\s*=\s*(.+)", re.S)


def plain(code):
    """`code` without comments and with empty literals."""
    return LITERAL.sub(lambda found: "" if found[0].startswith("//") else '""', code)


def declarations(code):
    """The text of each declaration in an unnamed namespace, up to its body or initialiser; aliases at file scope."""
    yield from re.findall(r"^using [^;{]*=[^;]*", code, re.M)
    for match in re.finditer(r"namespace\s*\{", code):
        depth, start = 1, match.end()
        for at in range(match.end(), len(code)):
            if code[at] == "{":
                if depth == 1:
                    yield code[start:at].strip()
                depth += 1
            elif code[at] == "}":
                depth -= 1
                start = at + 1
                if depth == 0:
                    break
            elif code[at] == ";" and depth == 1:
                yield code[start:at].strip()
                start = at + 1


def names(code):
    """Pairs of a name and what it may share the name with: declarations with equal pairs are one."""
    for declaration in declarations(plain(code)):
        if alias := ALIAS.match(declaration):
            yield alias[1], "alias " + " ".join(alias[2].split())
        elif kind := TYPE.match(declaration):
            yield kind[1], None
        elif function := re.search(r"(\w+)\((.*)\)[^)]*$", declaration.split("=")[0] if "operator" not in declaration else "", re.S):
            yield function[1], "function " + re.sub(r"\s*\b\w+(?=,|$)", "", " ".join(function[2].split()))
        elif "=" in declaration or re.match(r"(?:inline |static |thread_local )*const(?:expr)?\b", declaration):
            for variable in re.findall(r"(\w+)(?:\[\w*\])*\s*(?==|$|,)", declaration):
                if variable.startswith("k"):
                    yield variable, None


def check_library(sources):
    """Complaints about {path: code}."""
    seen = collections.defaultdict(list)
    for path, code in sorted(sources.items()):
        for name, kind in set(names(code)):
            seen[name].append((path, kind))
    for name, uses in seen.items():
        kinds = [kind for _, kind in uses]
        overloads = None not in kinds and len({kind.split()[0] for kind in kinds}) == 1 and (
            len(set(kinds)) == 1 if kinds[0].startswith("alias") else len(set(kinds)) == len(kinds))
        if len({path for path, _ in uses}) > 1 and not overloads:
            yield f"{name} is defined by {' and '.join(str(path) for path, _ in uses)}"


@functools.cache
def declared(root, header):
    """Pairs of a namespace and a function or type that a header declares, and its includes."""
    code = (root / header).read_text() if (root / header).exists() else ""
    scope = SCOPE.search(code)
    found = FUNCTION.findall(plain(code)) + [alias or kind for alias, kind in TYPE_AT_SCOPE.findall(plain(code))]
    return ({(scope[1], name) for name in found} if scope else set()), INCLUDE.findall(code)


def check_hiding(root, sources):
    """Complaints about names of {path: code} that hide a function or type of an included header."""
    functions, headers, todo = {}, set(), [name for code in sources.values() for name in INCLUDE.findall(code)]
    while todo:
        header = todo.pop()
        if header not in headers:
            headers.add(header)
            found, includes = declared(root, header)
            functions.update(dict.fromkeys(found, header))
            todo += includes
    for path, code in sorted(sources.items()):
        scope = SCOPE.search(code)
        for name, _ in set(names(code)):
            if scope and (scope[1], name) in functions:
                yield f"{path}: {name} hides that of {functions[scope[1], name]}"


def libraries(root):
    """The sources of each library, from the globs of the layers' build files."""
    for layer in LAYERS:
        build = (root / layer / "CMakeLists.txt").read_text()
        globs = re.findall(r"file\(GLOB \w+ CONFIGURE_DEPENDS ([^)$]*)\)", build)
        globs += [f"{room}/*.cpp {room}/*/*.cpp" for room in re.findall(r"ringside_client_room\((\w+) ", build)]
        for patterns in globs:
            paths = {path.relative_to(root) for pattern in patterns.split() for path in (root / layer).glob(pattern)}
            yield {path for path in paths if not ALONE.match(str(path))}


CONTROLS = [
    ("int F(int a) {}", "int F(int b) { return 1; }", True),
    ("int F(int a) {}", "int F(const char* a) {}", False),
    ("constexpr int kA = 1;", "constexpr int kB = 2, kA = 3;", True),
    ("using Json = a::b;", "using Json = a::b;", False),
    ("using Json = a::b;", "using Json = a::c;", True),
    ("struct A {\n  int F(int a);\n};", "class A {};", True),
    ("int F(int a) {}", "// a comment\nstruct F {};", True),
    ("struct A {\n  int F(int a);\n};", "int F(int a) {}", False),
    ('const char* F() { return "}"; }  // }\nint G() {}', "int G() {}", True),
]


def main():
    faults = []
    for first, second, clashes in CONTROLS:
        found = list(check_library({f"{i}.cpp": f"namespace {{\n{code}\n}}\n" for i, code in enumerate((first, second))}))
        if bool(found) != clashes:
            faults.append(f"negative control {first!r}, {second!r}: {found}")
    with tempfile.TemporaryDirectory() as folder:
        header = "namespace ringside {\n\nint F(const char* text);\nint G();\nstruct T {};\n\n}  // namespace ringside\n"
        (Path(folder) / "a.h").write_text(header)
        code = '#include "a.h"\nnamespace ringside {\nnamespace {\n\nint %s(int a) { return a; }\n\n}\n}\n'
        for name, hides in (("F", True), ("T", True), ("H", False)):
            if bool(list(check_hiding(Path(folder), {"b.cpp": code % name}))) != hides:
                faults.append(f"negative control: {name} beside {header!r}")
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    count, grouped = 0, set()
    for paths in libraries(root):
        sources = {path: (root / path).read_text() for path in paths}
        faults += check_library(sources)
        faults += check_hiding(root, sources)
        count += 1
        grouped |= paths
    rest = {path.relative_to(root) for layer in LAYERS for path in (root / layer).rglob("*.cpp")} - grouped
    faults += [f"{path} is in no library" for path in sorted(rest) if not ALONE.match(str(path))]
    print("\n".join([*faults, f"local names: {count} libraries, {len(CONTROLS) + 2} controls, {len(faults)} faults"]))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
