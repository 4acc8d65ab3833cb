"""Random schemas, and random documents generated under each by sampling among the tokens that its grammar allows: every
document must parse and be valid according to the jsonschema package. Conversely, documents constructed to be valid must
be accepted.

    scripts/python tests/system/turns/documents_of_schemas_test.py [schemas]
"""

import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import jsonschema

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import tiny_model  # noqa: E402

SCHEMAS = int(sys.argv[1]) if len(sys.argv) > 1 else 10000
DOCUMENTS = 3
NAMES = ["name", "id", "tags", "a", "b", "ab", "größe", "x y", 'q"', "", "n\\", "items", "type", "\n"]
WORDS = ["", "red", "green", "blue", "é", "漢字", '"', "\\", "a\nb", "😀", "null", "1"]
PATTERNS = ["^[a-z]+$", "^[A-Z][a-z]{0,5}$", "[0-9]{2}", "^(yes|no|maybe)$", "^\\d{3}-\\d{4}$", "a.c", "^[^\"]*$", "^\\w+\\s\\w+$",
            "^$|x", "^[\\u00e0-\\u00ff]{1,3}$", "^\\S{2,4}$", "^a*b+c?$"]
FORMATS = ["date", "time", "date-time", "uuid", "ipv4", "email", "hostname"]
CHECKER = jsonschema.FormatChecker(["date", "uuid", "ipv4", "email"])


def scalar(rng):
    return rng.choice([None, True, False, rng.randint(-5, 5), rng.choice(WORDS), round(rng.uniform(-9, 9), 2)])


def bounds(rng, integers):
    schema = {}
    low = rng.randint(-200, 200) if integers else round(rng.uniform(-20, 20), rng.randint(0, 3))
    high = low + (rng.randint(0, 400) if integers else round(rng.uniform(0.5, 30), 2))
    high = high if integers else round(high, 3)
    if rng.random() < 0.7:
        schema["minimum" if rng.random() < 0.7 else "exclusiveMinimum"] = low
    if rng.random() < 0.7:
        # Leaves room for a value between excluded bounds.
        schema["maximum" if rng.random() < 0.7 else "exclusiveMaximum"] = round(high + 2, 3)
    return schema


def string(rng):
    schema = {"type": "string"}
    kind = rng.random()
    if kind < 0.25:
        low = rng.randint(0, 4)
        schema |= {"minLength": low, "maxLength": low + rng.randint(0, 8)}
    elif kind < 0.45:
        schema["pattern"] = rng.choice(PATTERNS)
    elif kind < 0.6:
        schema["format"] = rng.choice(FORMATS)
    elif kind < 0.7:
        schema |= {"pattern": rng.choice(["a", "^[a-z ]*$", "[0-9]"]), "minLength": 2, "maxLength": rng.randint(2, 9)}
    return schema


def objects(rng, depth, definitions):
    names = rng.sample(NAMES, rng.randint(0, 4))
    schema = {"type": "object"}
    if names:
        schema["properties"] = {name: schema_of(rng, depth - 1, definitions) for name in names}
        schema["required"] = [name for name in names if rng.random() < 0.5]
    if rng.random() < 0.5:
        schema["additionalProperties"] = rng.choice([False, False, True, schema_of(rng, depth - 1, definitions)])
    return schema


def arrays(rng, depth, definitions):
    schema = {"type": "array"}
    if rng.random() < 0.8:
        schema["items"] = schema_of(rng, depth - 1, definitions)
    if rng.random() < 0.3:
        schema["prefixItems"] = [schema_of(rng, depth - 1, definitions) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.5:
        schema["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.5:
        schema["maxItems"] = schema.get("minItems", 0) + rng.randint(0, 4)
    return schema


def schema_of(rng, depth, definitions):
    """A random schema; `definitions` are the names that it may refer to."""
    kind = rng.random()
    if depth <= 0 or kind < 0.35:
        choice = rng.randint(0, 7)
        if choice == 0:
            return {"type": "boolean"}
        if choice == 1:
            return {"type": "null", "description": "nothing"}
        if choice == 2:
            return {"enum": [scalar(rng) for _ in range(rng.randint(1, 4))]}
        if choice == 3:
            return {"const": rng.choice([scalar(rng), [1, "a"], {"k": None}])}
        if choice == 4:
            return {"type": "integer"} | bounds(rng, True)
        if choice == 5:
            return {"type": "number"} | bounds(rng, False)
        return string(rng)
    if kind < 0.6:
        return objects(rng, depth, definitions)
    if kind < 0.78:
        return arrays(rng, depth, definitions)
    if kind < 0.86:
        return {"anyOf": [schema_of(rng, depth - 1, definitions) for _ in range(rng.randint(1, 3))]}
    if kind < 0.9:
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": word}, "v": schema_of(rng, depth - 1, definitions)},
                           "required": ["kind", "v"], "additionalProperties": False} for word in rng.sample(WORDS, 2)]}
    if kind < 0.94:
        return {"type": rng.sample(["string", "integer", "null", "boolean", "array"], 2)}
    return {"$ref": "#/$defs/" + rng.choice(definitions)} if definitions else True


def whole_schema(rng):
    names = ["node", "leaf"] if rng.random() < 0.3 else []
    schema = schema_of(rng, 3, names)
    if not isinstance(schema, dict):
        return {}
    if names:
        # A recursive schema that can end.
        schema["$defs"] = {
            "node": {"type": "object", "properties": {"v": schema_of(rng, 1, []), "next": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}},
                     "required": ["v", "next"]},
            "leaf": schema_of(rng, 1, []),
        }
    return schema


class Refused(Exception):
    """This generator cannot construct a document."""


def document(rng, schema, root):
    """A valid document for a schema made by whole_schema."""
    if schema is True or schema == {}:
        return scalar(rng)
    if "$ref" in schema:
        return document(rng, root["$defs"][schema["$ref"].rsplit("/", 1)[1]], root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            branches = schema[keyword]
            return document(rng, branches[0] if rng.random() < 0.6 else rng.choice(branches), root)
    kinds = schema.get("type")
    kind = rng.choice(kinds) if isinstance(kinds, list) else kinds
    if kind == "null":
        return None
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "integer":
        low = schema.get("minimum", schema.get("exclusiveMinimum", -10**6) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", 10**6) - 1)
        if low > high:
            raise Refused
        return rng.randint(low, high)
    if kind == "number":
        low, high = schema.get("minimum", schema.get("exclusiveMinimum", -50)), schema.get("maximum", schema.get("exclusiveMaximum", 60))
        return round(low + (high - low) * rng.choice([0.25, 0.5, 0.75]), 5)
    if kind == "string":
        if "pattern" in schema or "format" in schema:
            raise Refused
        length = rng.randint(schema.get("minLength", 0), schema.get("maxLength", 12))
        return "".join(rng.choice(["a", "Z", "é", "漢", "😀", '"', "\\", "\n", "\x01", " ", "/"]) for _ in range(length))
    if kind == "array":
        prefix = schema.get("prefixItems", [])
        low = schema.get("minItems", 0)
        count = rng.randint(low, schema.get("maxItems", low + 3))
        return [document(rng, prefix[i] if i < len(prefix) else schema.get("items", True), root) for i in range(count)]
    made = {}
    for name, sub in schema.get("properties", {}).items():
        if name in schema.get("required", []) or rng.random() < 0.5:
            made[name] = document(rng, sub, root)
    more = schema.get("additionalProperties", "properties" not in schema)
    if more is not False and rng.random() < 0.5:
        made["zz"] = scalar(rng) if more is True else document(rng, more, root)
    return made


def main():
    rng = random.Random(17)
    validators, requests = [], []
    for seed in range(SCHEMAS):
        schema = whole_schema(rng)
        accept = []
        for _ in range(2):
            try:
                made = document(rng, schema, schema)
            except (Refused, RecursionError):
                continue
            # Enumerated values are written without spaces, others with or without.
            listed = '"const": [' in json.dumps(schema) or '"const": {' in json.dumps(schema)
            compact = (",", ":") if listed or rng.random() < 0.5 else None
            accept.append(json.dumps(made, ensure_ascii=False, separators=compact))
        validators.append(jsonschema.Draft202012Validator(schema, format_checker=CHECKER))
        requests.append({"kind": "json_schema", "text": json.dumps(schema), "documents": DOCUMENTS, "seed": seed, "accept": accept})
    models = [os.environ[name] for name in ("RINGSIDE_TEST_MODEL",) if os.environ.get(name)]
    with tempfile.TemporaryDirectory() as folder:
        models.insert(0, tiny_model.make(folder + "/tiny.gguf"))
        faults = []
        for model in models:
            # The real vocabulary is so large that a fraction of the schemas suffices.
            some = requests if model == models[0] else requests[: max(1, SCHEMAS // 20)]
            faults += check(model, some, validators)
    for fault in faults[:20]:
        print(fault)
    return 1 if faults else 0


def check(model, requests, validators):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = subprocess.run([os.environ["RINGSIDE_GRAMMAR_DOCUMENTS"], model], input=lines, capture_output=True, text=True, check=True)
    faults, valid, accepted, unfinished, impossible = [], 0, 0, 0, 0
    answers = done.stdout.splitlines()
    assert len(answers) == len(requests), (len(answers), done.stderr)
    for request, validator, line in zip(requests, validators, answers):
        answer = json.loads(line)
        if "error" in answer:
            # Random bounds and nestings may leave nothing; whatever else is refused is a fault.
            if any(why in answer["error"] for why in ("matches no text", "no string satisfies", "no number is within")):
                impossible += 1
            else:
                faults.append(f"refused: {answer} {request['text']}")
            continue
        unfinished += answer["unfinished"]
        for text in answer["documents"]:
            try:
                value = json.loads(text)
                text.encode()
            except ValueError as error:
                faults.append(f"not JSON: {error} {text!r} {request['text']}")
                continue
            error = next(validator.iter_errors(value), None)
            if error is not None:
                faults.append(f"not valid: {error.message} {text!r} {request['text']}")
            valid += 1
        for text, taken in zip(request["accept"], answer["accepted"]):
            if not taken:
                faults.append(f"not taken: {text!r} {request['text']}")
            accepted += 1
    print(f"{os.path.basename(model)}: {len(requests)} schemas, {valid} documents, {accepted} made ones, {unfinished} unfinished, "
          f"{impossible} impossible, {len(faults)} faults")
    if unfinished * 50 > valid or impossible * 20 > len(requests) or accepted * 3 < len(requests):
        faults.append("too few were looked at")
    return faults


if __name__ == "__main__":
    sys.exit(main())
