"""Enforces the layers: reads every #include of the source tree and fails on an edge missing from the table below, on a
third-party header outside its room, on JSON in a header, on JSON parsed elsewhere than in base/json, on files that are
too long, on classes that are too large, and on a type that two headers define under one name (the linker would merge
them: a destructor of one would run on the other).

    python3 tests/layering_test.py [root]

Runs its own negative controls first: a checker that cannot fail proves nothing.
"""

import re
import sys
import tempfile
from pathlib import Path

import class_sizes

ROOT = Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
MAX_LINES = 600
# Limits of a class. A struct with fewer functions than fields is plain data: the number of its fields is not limited.
MAX_FUNCTIONS, MAX_FIELDS = 60, 20

# The classes above these limits: the figures that they may not exceed, and the reason.
LARGE_CLASSES = {
    "SessionTable::State": (60, 23, "not divided yet: limits, idle sessions, lookups"),
    "RealtimeSocket": (27, 22, "the state of one socket: session, audio, responses"),
    "CpuBackend": (60, 26, "not divided yet: operations of Backend, and the scratch memory of each"),
    "CudaBackend": (76, 22, "one function per operation of Backend"),
    "Decoder": (49, 38, "one decoder block for all families: a buffer per intermediate result"),
    "Serving": (29, 24, "the parts of a server, in their order of construction"),
    "Journal::Impl": (30, 26, "not divided yet: writer thread, files, index"),
    "ToolCallReader": (20, 21, "an incremental parser: its fields are its state"),
    "Repl": (49, 26, "one function per command"),
}

# Each room and the rooms whose headers it may include, in addition to its own. The rooms of clients/ include nothing of
# the server except its JSON reader and its command line.
SHARED_WITH_CLIENTS = ("base/cli", "base/json", "base/model_files")
MAY_INCLUDE = {
    "base": "",
    "base/cli": "base",
    "base/json": "base",
    "base/model_files": "",
    "kernels": "base kernels/cpu kernels/cuda kernels/comm",
    "kernels/cpu": "base kernels",
    "kernels/cuda": "base kernels",
    "kernels/comm": "base kernels",
    "cache": "base kernels",
    "cache/store": "base cache",
    "engine/files": "base base/json kernels",
    "engine/text": "base base/json engine/files",
    "engine/grammar": "base base/json engine/text",
    "engine/families": "base kernels engine/files",
    "engine/families/gguf": "base kernels engine/files engine/families",
    "engine/families/huggingface": "base kernels engine/files engine/families",
    "engine/import": "base kernels engine/files engine/families",
    "engine/vision": "base kernels engine/files engine/text engine/families engine/families/huggingface",
    "engine/model": "base kernels cache engine/vision engine/files engine/text engine/families engine/families/huggingface"
                    " engine/import",
    "engine/speculation": "base engine/text",
    "engine": "base kernels cache cache/store engine/files engine/text engine/grammar engine/families engine/vision engine/model"
              " engine/speculation",
    "engine/turns": "base kernels cache engine/text engine/grammar engine/vision engine/model engine/speculation engine",
    "engine/overload": "base engine",
    "engine/loop": "base kernels cache cache/store engine/text engine/vision engine/model engine/speculation engine engine/turns"
                   " engine/overload",
    "engine/fleet": "base engine",
    "engine/convert": "base kernels engine/files engine/text engine/families engine/families/gguf"
                      " engine/families/huggingface engine/import engine/model engine",
    "session/journal": "base cache/store",
    "session/postgres": "base session/journal",
    "session/tools": "base base/json engine/grammar",
    "session/chat/jinja": "base engine/text",
    "session/chat/templates": "base base/json engine/text engine/grammar session/tools session/chat/jinja",
    "session/chat/timeline": "base engine/text engine/grammar engine/vision session/tools session/chat/templates",
    "session/history": "base",
    "session/pictures": "base engine/vision",
    "session": "base cache cache/store engine/text engine/grammar engine/vision engine session/journal session/tools"
               " session/chat/templates session/chat/timeline",
    "session/table": "base cache/store engine/text engine/grammar engine session/journal session/chat/templates"
                     " session/chat/timeline session/history session/pictures session",
    "ws/json": "base base/json",
    "ws/access": "base base/cli base/json",
    "ws/transport": "base ws/access ws/transport/limits ws/transport/socket ws/transport/tls",
    "ws/transport/limits": "base",
    "ws/transport/fetch": "base",
    "ws/transport/socket": "base ws/transport ws/transport/limits",
    "ws/transport/tls": "base ws/transport",
    "ws/config": "base base/cli base/json kernels cache engine/families engine/model engine session/journal"
                 " session/postgres session/table ws/access ws/transport ws/transport/fetch",
    "ws/fields": "base session/chat/templates session ws/json ws/transport",
    "ws/content": "base engine/text engine/grammar engine session/journal session/tools session/chat/timeline session"
                  " session/table ws/json ws/transport ws/fields",
    "ws/openai": "base engine/text engine/grammar engine session/journal session/tools session/chat/timeline session"
                 " session/table ws/json ws/access ws/transport ws/transport/limits ws/fields ws/content",
    "ws/page": "base ws/access ws/transport",
    "ws/realtime": "base engine/text engine/grammar engine session/journal session/tools session/chat/timeline session"
                   " session/table ws/json ws/access ws/transport ws/fields ws/content",
    "ws/chat": "base engine/text engine/grammar engine session/journal session/tools session session/table"
               " ws/json ws/access ws/transport ws/fields ws/content",
    "ws": "base base/cli base/model_files kernels cache/store engine/text engine/families engine/vision engine/model engine engine/fleet"
          " engine/overload session/journal session/pictures session/postgres session/tools session/chat/templates"
          " session session/table ws/json ws/access ws/transport ws/transport/fetch ws/transport/tls ws/fields ws/content ws/config ws/openai ws/chat ws/page"
          " ws/realtime",
    "clients/wire": "base/json",
    "clients/terminal": "",
    "clients/chat": "base/cli base/json clients/wire clients/terminal",
    "clients/program": "base/cli clients/wire",
    "clients/bench": "base/cli base/json clients/wire clients/chat clients/program",
    "clients/eval": "base/json clients/wire clients/terminal",
    "clients/models": "base/cli base/json base/model_files clients/wire clients/terminal",
    "clients/pull": "base/cli base/json base/model_files clients/wire clients/terminal clients/models",
    "clients/cli": "base/cli base/json clients/wire clients/terminal clients/chat clients/eval clients/program clients/models"
                   " clients/pull",
    "tools/image_decoder": "base",
    "tools/convert": "base base/cli kernels engine/model engine/convert",
}
FOLDERS = ["base", "kernels", "cache", "engine", "session", "ws", "clients", "tools", "tests"]
# Tests and programs for developers. They may include anything, and only they include their headers.
FREE = ("tools/bench/", "tools/sim/", "tests/")

# Third-party header -> where it may be included, as path prefixes.
ROOMS = [
    (r"boost/", ["base/asio/", "ws/transport/", "clients/"]),
    (r"openssl/", ["base/", "ws/access/", "ws/transport/", "clients/"]),
    (r"yaml-cpp/", ["ws/config/"]),
    (r"CLI/", ["base/cli/", "ws/access/", "ws/config/", "tools/convert/", "clients/"]),
    (r"spdlog/", ["base/log.cpp"]),
    (r"systemd/", ["ws/app/app_watchdog.cpp"]),
    (r"pcre2", ["engine/text/"]),
    (r"utf8proc", ["engine/text/", "clients/"]),
    (r"xxhash", ["engine/", "cache/", "session/", "base/"]),
    (r"rocksdb/", ["cache/", "session/journal/"]),
    (r"libpq-fe\.h", ["session/postgres/"]),
    (r"nlohmann/", ["base/cli/", "base/json/", "engine/", "session/", "ws/", "clients/"]),
    (r"fmt/", ["base/", "kernels/", "cache/", "engine/", "session/", "ws/", "clients/"]),
    (r"(cuda|cublas|curand|cusparse)", ["kernels/cuda/"]),
    (r"(nccl|mpi)\.h", ["kernels/comm/"]),
    (r"(jpeglib|jerror|png)\.h|webp/", ["tools/image_decoder/"]),
    (r"(gtest/|gmock/|benchmark/|cupti)", []),
]
# Rooms that apply to .cpp files only: these headers never spread through ours. Forward declarations may.
CPP_ONLY = [r"nlohmann/json\.hpp", r"spdlog/", r"yaml-cpp/", r"CLI/", r"pcre2", r"utf8proc", r"xxhash", r"rocksdb/", r"libpq-fe\.h"]
# JSON is parsed by one reader, with limits.
PARSES_JSON = (re.compile(r"\b(?:json|Json|ordered_json|OrderedJson)::(?:sax_parse|parse|accept)\("), "base/json/")
# RocksDB is used by the disk tier and the settings of all databases; by the journal, and the log of running answers.
MAX_FILES = {(r"rocksdb/", "cache"): 2, (r"rocksdb/", "session"): 2}

# The standard library and the operating system: lower-case C++ names without a dot, C headers, POSIX and compiler ones.
SYSTEM = re.compile(
    r"^([a-z_]+|(sys|arpa|netinet|net|linux|asm)/[a-z_]+\.h|"
    r"(immintrin|x86intrin|arm_neon|cpuid|cxxabi|unistd|fcntl|signal|termios|poll|sched|pthread|dirent|spawn|grp|dlfcn|pwd|netdb|errno|getopt|malloc|time)\.h)$"
)
# An unindented definition, so in the shared namespace. kernels/cpu compiles its own headers once per instruction set,
# in separate namespaces.
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: :[^;{]*)? \{", re.MULTILINE)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def check_own(path, name, included):
    """The complaint about an include of one of our own headers, or None."""
    top, other = path.split("/")[0], included.split("/")[0]
    if path.startswith(FREE):
        return None
    if included.startswith(FREE):
        return f"{name}: includes a header for developers: {included}"
    mine, theirs = room_of(path), room_of(included)
    if (top == "clients") != (other == "clients") and theirs not in SHARED_WITH_CLIENTS:
        return f"{name}: clients/ and the server share the wire protocol only: {included}"
    if mine != theirs and theirs not in MAY_INCLUDE[mine].split():
        return f"{name}: {mine}/ may not include {theirs}/: {included}"
    return None


def room_of(path):
    """The innermost room of the table that contains a file: "kernels/cuda" for kernels/cuda/linear/panels.cu."""
    folders = path.split("/")[:-1]
    while "/".join(folders) not in MAY_INCLUDE:
        folders.pop()
    return "/".join(folders)


def check_third_party(path, name, included):
    """The complaint about an include of a third-party or system header, or None."""
    for pattern, rooms in ROOMS:
        if not re.match(pattern, included):
            continue
        if path.startswith(FREE):
            return None
        if not any(path.startswith(room) for room in rooms):
            return f"{name}: {included} belongs to {' '.join(rooms) or 'tests/'}"
        if Path(path).suffix in {".h", ".cuh"} and any(re.match(p, included) for p in CPP_ONLY):
            return f"{name}: {included} may be included in .cpp files only"
        return None
    return None if SYSTEM.match(included) else f"{name}: {included} has no room in the table of tests/layering_test.py"


def check_tree(root):
    """All complaints about the tree, and the number of files and includes read."""
    complaints, files, includes, users, types, large = [], 0, 0, {}, {}, set()
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            files += 1
            path = file.relative_to(root).as_posix()
            text = file.read_text(encoding="utf-8")
            if not path.startswith(FREE):
                complaints += check_classes(path, text, large)
            pattern, room = PARSES_JSON
            if not path.startswith((room, *FREE)):
                complaints += [f"{path}: JSON is parsed in {room} only: {match[0]}" for match in pattern.finditer(text)]
            lines = text.count("\n")
            if lines > MAX_LINES:
                complaints.append(f"{path}: {lines} lines, more than {MAX_LINES}")
            if file.suffix == ".h" and folder in MAY_INCLUDE and not path.startswith("kernels/cpu/"):
                for match in TYPE.finditer(text):
                    types.setdefault(match[1], set()).add(path)
            for match in INCLUDE.finditer(text):
                includes += 1
                name = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
                included = match[2]
                if included.split("/")[0] in FOLDERS and "/" in included:
                    if match[1] == "<":
                        complaints.append(f"{name}: our own headers are included with quotes: {included}")
                    elif not (root / included).is_file():
                        complaints.append(f"{name}: no such header: {included}")
                    complaint = check_own(path, name, included)
                elif match[1] == '"' and not any(re.match(pattern, included) for pattern, _ in ROOMS):
                    complaint = f"{name}: includes are written from the root: {included}"
                else:
                    complaint = check_third_party(path, name, included)
                    for pattern, top in MAX_FILES:
                        if re.match(pattern, included) and top == folder:
                            users.setdefault((pattern, top), set()).add(path)
                if complaint:
                    complaints.append(complaint)
    for name, paths in types.items():
        if len(paths) > 1:
            complaints.append(f"{', '.join(sorted(paths))}: each defines a type {name}")
    for key, paths in users.items():
        if len(paths) > MAX_FILES[key]:
            complaints.append(f"{', '.join(sorted(paths))}: only {MAX_FILES[key]} files of {key[1]}/ may include {key[0]}")
    return complaints, files, includes, large


def check_classes(path, text, large):
    """Complaints about the classes of a file. Adds the names of those above the limits to `large`."""
    complaints = []
    for name, is_struct, functions, fields in class_sizes.sizes(text):
        if functions <= MAX_FUNCTIONS and (fields <= MAX_FIELDS or (is_struct and functions < fields)):
            continue
        large.add(name)
        most_functions, most_fields, _ = LARGE_CLASSES.get(name, (MAX_FUNCTIONS, MAX_FIELDS, None))
        if functions > most_functions or fields > most_fields:
            complaints.append(f"{path}: {name} has {functions} member functions and {fields} fields, more than"
                              f" {most_functions} and {most_fields}: divide it by state")
    return complaints


# One line each: a file, its content, and a part of the complaint it must cause; None if it must cause none.
CONTROLS = [
    ("base/a.h", '#include "kernels/b.h"\n', "base/ may not include kernels/"),
    ("kernels/a.cpp", '#include "base/b.h"\n', None),
    ("ws/a.cpp", '#include "base/b.h"\n', None),
    ("session/a.h", '#include "ws/b.h"\n', "session/ may not include ws/"),
    ("engine/a.cpp", '  #  include "session/b.h"\n', "engine/ may not include session/"),
    ("ws/transport/a.h", '#include "session/b.h"\n', "ws/transport/ may not include session/"),
    ("ws/a.h", '#include "ws/transport/b.h"\n', None),
    ("ws/transport/a.h", '#include "ws/b.h"\n', "ws/transport/ may not include ws/"),
    ("engine/text/a.h", '#include "engine/b.h"\n', "engine/text/ may not include engine/"),
    ("clients/cli/a.cpp", '#include "base/b.h"\n', "wire protocol only"),
    ("clients/cli/a.cpp", '#include "base/json/b.h"\n', None),
    ("clients/cli/a.cpp", '#include "clients/cli/b.h"\n', None),
    ("ws/a.cpp", '#include "clients/cli/b.h"\n', "wire protocol only"),
    ("clients/wire/a.cpp", '#include "clients/cli/b.h"\n', "clients/wire/ may not include clients/cli/"),
    ("kernels/cpu/a.cpp", '#include "kernels/cuda/b.h"\n', "kernels/cpu/ may not include kernels/cuda/"),
    ("kernels/cuda/linear/a.cpp", '#include "kernels/cpu/b.h"\n', "kernels/cuda/ may not include kernels/cpu/"),
    ("kernels/cpu/a.cpp", '#include "kernels/cpu/b.h"\n', None),
    ("kernels/cpu/a.cpp", '#include "kernels/b.h"\n', None),
    ("engine/a.cpp", '#include "b.h"\n', "from the root"),
    ("engine/a.cpp", '#include "engine/gone.h"\n', "no such header"),
    ("engine/a.cpp", "#include <base/b.h>\n", "with quotes"),
    ("engine/a.cpp", '#include "tests/b.h"\n', "for developers"),
    ("tools/bench/a.cpp", '#include "tests/b.h"\n#include <gtest/gtest.h>\n', None),
    ("session/a.cpp", "#include <boost/asio.hpp>\n", "belongs to"),
    ("ws/a.h", "#include <boost/asio.hpp>\n", "belongs to"),
    ("ws/transport/a.h", "#include <boost/asio.hpp>\n", None),
    ("ws/a.cpp", "#include <nlohmann/json.hpp>\n", None),
    ("ws/a.h", "#include <nlohmann/json.hpp>\n", ".cpp files only"),
    ("ws/a.h", "#include <nlohmann/json_fwd.hpp>\n", None),
    ("base/a.cpp", "#include <nlohmann/json.hpp>\n", "belongs to"),
    ("engine/a.cpp", "auto a = nlohmann::json::parse(b);\n", "in base/json/ only"),
    ("tests/a.cpp", "auto a = nlohmann::json::parse(b);\n", None),
    ("base/a.cpp", "#include <spdlog/spdlog.h>\n", "belongs to"),
    ("base/log.cpp", "#include <spdlog/spdlog.h>\n", None),
    ("engine/a.cpp", "#include <cuda_runtime.h>\n", "belongs to"),
    ("engine/a.cpp", "#include <gtest/gtest.h>\n", "belongs to tests/"),
    ("tests/a.cpp", "#include <gtest/gtest.h>\n#include <nlohmann/json.hpp>\n", None),
    ("engine/a.cpp", "#include <absl/strings/str_cat.h>\n", "no room"),
    ("engine/a.cpp", "#include <vector>\n#include <sys/mman.h>\n#include <immintrin.h>\n", None),
    ("engine/a.cpp", "// #include <absl/a.h>\n", None),
    ("engine/a.cpp", "\n" * 600, None),
    ("engine/a.cpp", "\n" * 601, "601 lines"),
    ("cache/a.cpp", "#include <rocksdb/db.h>\n", None),
    ("engine/a.h", "class A {\n" + "  void F(int a, int b);\n" * 60 + "};\n", None),
    ("engine/a.h", "class A {\n" + "  int F() const { return f_; }\n" * 61 + "};\n", "61 member functions and 0 fields"),
    ("engine/a.cpp", "struct B;\nstruct A : B {\n" + "  void F();\n" * 61 + "};\n", "61 member functions"),
    ("engine/a.h", "class A {\n" + "  std::map<int, std::function<void(int)>> a_ = {};\n" * 20 + "};\n", None),
    ("engine/a.h", "class A {\n" + "  int a_ = 0, b_{1};\n" * 10 + "  T c_;\n};\n", "0 member functions and 21 fields"),
    ("engine/a.h", "class A {\n  struct B {\n    int b;\n  } b_;\n" + "  int a_;\n" * 20 + "};\n", "21 fields"),
    ("engine/a.h", "struct A {\n" + "  int a = 0;\n" * 21 + "  int F() const;\n};\n", None),
    ("engine/a.h", "struct A {\n" + "  int a = 0;\n  int F() const;\n" * 21 + "};\n", "21 fields"),
    ("engine/a.h", "class A {\n" + "  static constexpr int kA = 1;\n  using B = int;\n  // int a_;\n" * 21 + "};\n", None),
    ("clients/cli/a.h", "class Repl {\n" + "  int field_;\n" * 26 + "};\n", None),
    ("clients/cli/a.h", "class Repl {\n" + "  int field_;\n" * 27 + "};\n", "27 fields"),
]


def run_controls():
    failures = []
    headers = ["base/b.h", "base/json/b.h", "kernels/b.h", "kernels/cpu/b.h", "kernels/cuda/b.h", "engine/b.h", "session/b.h", "ws/b.h",
               "ws/transport/b.h", "clients/cli/b.h", "tests/b.h"]
    for path, content, words in CONTROLS:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for header in headers:
                (root / header).parent.mkdir(parents=True, exist_ok=True)
                (root / header).write_text("")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(content)
            complaints = check_tree(root)[0]
        expected = complaints == [] if words is None else len(complaints) == 1 and words in complaints[0]
        if not expected:
            failures.append(f"negative control {path!r} {content[:50]!r}: expected {words!r}, got {complaints}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, content in (
            ("engine/a.h", "class A final : public B {\n};\nstruct C;\n"), ("session/a.h", "struct A {\n};\nclass C {\n};\n")
        ):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text(content)
        complaints = check_tree(root)[0]
        if len(complaints) != 1 or "type A" not in complaints[0]:
            failures.append(f"negative control: two types of one name gave {complaints}")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("cache/a.cpp", "cache/b.cpp", "cache/c.cpp"):
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_text("#include <rocksdb/db.h>\n")
        if not any("only 2 files" in complaint for complaint in check_tree(root)[0]):
            failures.append("negative control: three files with RocksDB in cache/ were accepted")
    return failures


def main():
    failures = run_controls()
    complaints, files, includes, large = check_tree(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
    if len(sys.argv) == 1:
        complaints += [f"{name} is not above the limits: remove it from LARGE_CLASSES" for name in LARGE_CLASSES if name not in large]
    if files < 20 and len(sys.argv) == 1:
        failures.append(f"only {files} source files were found: is {ROOT} the repository?")
    for line in failures + complaints:
        print(line)
    print(f"layering: {files} files, {includes} includes, {len(CONTROLS) + 2} controls, {len(failures + complaints)} faults")
    return 1 if failures or complaints else 0


if __name__ == "__main__":
    sys.exit(main())
