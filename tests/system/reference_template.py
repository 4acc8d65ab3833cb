"""What a chat template makes of a conversation with Jinja2, set up as transformers does it."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

QUESTION, FIRST, SECOND = "Zqa3quvx", "Zpa7quvx", "Zpb8quvx"
LONGEST_SEPARATOR = 16
REASONING = ("reasoning_content", "reasoning", "thinking")  # templates read it by one of these names


class Refused(Exception):
    """The template takes no such conversation."""


class Failed(Exception):
    """The template was not written for such a conversation, or for this library."""


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %}, which marks what an assistant says."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


class Refusal(Exception):
    pass


def raise_exception(message):
    raise Refusal(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class ReferenceTemplate:
    def __init__(self, source, bos, eos):
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = tojson
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self.template = environment.from_string(source)
        self.tokens = {"bos_token": bos, "eos_token": eos}
        self.takes_parts = {role: self.reads_parts(role) for role in ("system", "user", "assistant")}
        self.text_arguments = self.writes_arguments_as_python()

    def render(self, messages, tools=None, opens=True):
        """Of messages as a template reads them. Raises Refused or Failed."""
        try:
            return self.template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=opens, **self.tokens)
        except Refusal as refusal:
            raise Refused(refusal) from refusal
        except Exception as error:
            raise Failed(f"{type(error).__name__}: {error}") from error

    def text(self, messages, tools=None, opens=True):
        """Of messages as a client sends them. Raises Refused or Failed. Reasoning that the template refuses is left out."""
        read = [self.read(message) for message in messages]
        try:
            text = self.render(read, tools, opens)
        except Refused:
            text = self.render([{key: value for key, value in message.items() if key not in REASONING} for message in read], tools, opens)
        if any(isinstance(message["content"], list) and str(message["content"]) in text for message in read):
            raise Failed("a list of parts is written as a Python value")
        return text

    def read(self, message):
        """A client's message as servers give it to templates."""
        message = dict(message)
        if isinstance(message["content"], list) and not self.takes_parts.get(message["role"]):
            message["content"] = "\n".join(part["text"] for part in message["content"])
        if reasoning := message.pop("reasoning_content", None):
            message |= dict.fromkeys(REASONING, reasoning)
        if "tool_calls" in message:
            message["tool_calls"] = [self.call(call) for call in message["tool_calls"]]
        return message

    def call(self, call):
        arguments = call["function"]["arguments"]
        function = {"name": call["function"]["name"], "arguments": arguments if self.text_arguments else json.loads(arguments)}
        return {"id": call["id"], "type": "function", "function": function, **function}

    def reads_parts(self, role):
        """Whether the template writes the texts of a list of parts; else they are joined to one."""
        question = {"role": "user", "content": QUESTION}
        parts = {"role": role, "content": [{"type": "text", "text": text} for text in (FIRST, SECOND)]}
        messages = [question] * (role == "assistant") + [parts] + [question] * (role != "user")
        try:
            text = self.render(messages)
        except (Refused, Failed):
            return False
        if text.count(FIRST) != 1 or text.count(SECOND) != 1:
            return False
        between = text[text.index(FIRST) + len(FIRST):text.index(SECOND)]
        return len(between.encode()) <= LONGEST_SEPARATOR and not any(character.isascii() and character.isalnum() for character in between)

    def writes_arguments_as_python(self):
        """Some templates write a call's arguments as they get them: those are for JSON text."""
        function = {"name": "look", "arguments": {"what": QUESTION}}
        call = {"id": "abcdefgh0", "type": "function", "function": function, **function}
        asked = [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
        try:
            text = self.render(asked, opens=False)
        except (Refused, Failed):
            return True
        return f"{{'what': '{QUESTION}'}}" in text

    def writes_calls(self, tools):
        """Whether the model reads calls of earlier answers."""
        function = {"name": "look", "arguments": json.dumps({"what": FIRST}) if self.text_arguments else {"what": FIRST}}
        call = {"id": "abcdefgh0", "type": "function", "function": function, **function}
        asked = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "", "tool_calls": [call]},
                 {"role": "tool", "tool_call_id": "abcdefgh0", "content": "x"}]
        try:
            return FIRST in self.render(asked, tools)
        except (Refused, Failed):
            return True

    def tells_tools(self, tools):
        """Whether the model reads of them at all."""
        asked = [{"role": "user", "content": QUESTION}]
        try:
            return self.render(asked, tools) != self.render(asked)
        except (Refused, Failed):
            return True
