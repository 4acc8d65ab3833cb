"""Counts the members of the classes in C++ sources, by reading the text: tests/layering_test.py limits them."""

import re

NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n\\]|\\.)*', re.S | re.M)
CLASS = re.compile(
    r"\b(class|struct)\s+(?:\[\[\w+\]\]\s*|alignas\([^)]*\)\s*)?([A-Za-z_][\w:]*)(?:\s+final)?\s*(?::(?!:)[^;{()]*)?\{")
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert)\b|template\s*<[^{]*>\s*(?:class|struct|friend|using)\b")
STATIC = re.compile(r"(?:inline\s+)?(?:static|constexpr)\b")
TYPE = re.compile(r"(?:class|struct|enum|union)\b")


def sizes(text):
    """The (name, is a struct, member functions, fields) of every class that is defined in a source, nested ones too."""
    code = NOISE.sub(lambda match: '""' if match[0][0] in "\"R" else " ", text)
    yield from _classes(code, 0, len(code), "")


def _classes(code, at, stop, outer):
    while match := CLASS.search(code, at, stop):
        at = match.end()
        if re.search(r"\benum\s*$", code[max(0, match.start() - 10):match.start()]):
            continue
        end = _end_of_block(code, match.end() - 1)
        yield (outer + match[2], match[1] == "struct", *_count(code[match.end():end - 1]))
        yield from _classes(code, match.end(), end - 1, outer + match[2] + "::")
        at = end


def _end_of_block(code, at):
    """The position after the brace that closes the one at `at`."""
    depth = 0
    for end in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[end], 0)
        if depth == 0:
            return end + 1
    return len(code)


def _declarations(body):
    """The member declarations of a class body, each block in them as {}."""
    at, text = 0, ""
    while at < len(body):
        if body[at] == "{":
            at = _end_of_block(body, at)
            text += "{}"
            if _is_function(text):
                yield text.strip()
                text = ""
            continue
        if body[at] == ";":
            yield text.strip()
            text = ""
        elif body[at] == ":" and re.search(r"\b(?:public|private|protected)\s*$", text):
            text = ""
        else:
            text += body[at]
        at += 1


def _plain(declaration):
    """A declaration without template arguments and attributes."""
    text = re.sub(r"operator\s*(?:<=>|<<|>>|<|>|->|\(\))", "operator", declaration)
    before = None
    while before != text:
        before, text = text, re.sub(r"<[^<>]*>", "", text)
    return re.sub(r"\[\[[^\]]*\]\]|alignas\([^)]*\)", "", text)


def _is_function(declaration):
    text = _plain(declaration).strip()
    head = text if "operator" in text else re.split(r"=(?!=)|\{", text)[0]
    return "(" in head and not TYPE.match(head)


def _count(body):
    functions = fields = 0
    for declaration in _declarations(body):
        if not declaration or NO_MEMBER.match(declaration):
            continue
        if TYPE.match(declaration):
            names = declaration.rpartition("{}")[2] if "{}" in declaration else ""
            declaration = "T " + names.strip() if names.strip() else ""
        if not declaration:
            continue
        if _is_function(declaration):
            functions += not re.search(r"=\s*(?:delete|default)$", declaration)
        elif not STATIC.match(declaration):
            fields += 1 + re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^\]]*\]", "", _plain(declaration)).count(",")
    return functions, fields
