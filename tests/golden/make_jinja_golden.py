#!/usr/bin/env python3
"""Writes the references of tests/session/chat/jinja_test.cpp: template fragments, one or more for each construct and
thousands of random expressions, and jinja2's output for them in the environment in which transformers renders chat
templates, except that lists and dicts may be changed. Needs jinja2 3.1."""
import copy
import datetime
import json
import random
import re
from pathlib import Path

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import SandboxedEnvironment

HERE = Path(__file__).parent / "jinja"
CONTEXT = {
    "s": "hello World", "t": "  two  words\n", "u": "na\u00efve \u4f60\u597d \U0001f600 stra\u00dfe", "e": "", "q": "it's \"x\"\\\t\u200b",
    "i": 7, "j": -3, "z": 0, "f": 2.5, "g": -0.125, "big": 1e20, "y": True, "n": None, "no": False,
    "l": [3, 1, 2], "w": ["b", "A", "c", "B"], "m": [1, "a", None, True, 2.0, [1, {"k": "v"}]], "el": [],
    "d": {"b": 1, "a": "x", "C": [1, 2]}, "ed": {}, "o": {"name": "f", "items": 5, "p": {"q": {"r": "deep"}}},
    "rows": [{"role": "system", "n": 2, "tags": ["x"]}, {"role": "user", "n": 1}, {"role": "User", "n": 3, "tags": []}],
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo <|x|>"}, {"role": "user", "content": "So?"}],
    "tool": {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": {"a": {"type": "number",
             "minimum": 0.5}}, "required": []}, "description": "caf\u00e9 <b> & 'c'\n"}},
}
NAMES = [n for n in CONTEXT]

# One case per line.
CASES = r"""
{{ s }}|{{ i }}|{{ f }}|{{ y }}|{{ n }}|{{ l }}|{{ d }}|{{ missing }}|{{ m }}|{{ q }}|{{ [q, u] }}
a{% if y %}b{% elif no %}c{% else %}d{% endif %}e
{% if no %}1{% elif z %}2{% else %}3{% endif %}{% if e or n %}4{% endif %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }},{% endfor %}
{% for x in el %}{{ x }}{% else %}none{% endfor %}{% for x in missing %}{{ x }}{% else %}none{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in s %}{{ c }}.{% endfor %}
{% for x in l if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ loop.last }} {% else %}no{% endfor %}
{% for x in l if x > 5 %}{{ x }}{% else %}no{% endfor %}
{% for x in l %}{% if loop.first %}{% continue %}{% endif %}{{ x }}{% if x == 1 %}{% break %}{% endif %}{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}{% for x in l %}{% for z in w %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(a=1, b='x') %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}
{% set ns = namespace() %}{% set ns.found = false %}{% for m in messages if not ns.found %}{% if m.role == 'assistant' %}{% set ns.found = true %}{% endif %}{{ m.role }},{% endfor %}
{% set ns = namespace({'k': 1}) %}{{ ns.k }}{{ ns['k'] }}{% set d.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = 1, %}{{ c }}{% set p = (1, 2) %}{{ p }}
{% set block %}x{{ i }}{% endset %}[{{ block }}]{% set up | upper %}abc{% endset %}{{ up }}{% set up | upper | replace('A', 'z') %}abc{% endset %}{{ up }}
{% macro hi(a, b='B', c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ hi(1) }}{{ hi(1, 2) }}{{ hi(1, c=3) }}{{ hi(b=2, a=1) }}{{ hi() }}
{% macro fact(n) %}{{ 1 if n <= 1 else n * (fact(n - 1) | int) }}{% endmacro %}{{ fact(5) }}
{% macro wrap(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) wrap(2) %}{{ y }}{{ i }}{% endcall %}{% macro w2() %}({{ caller() }}){% endmacro %}{% call w2() %}in{% endcall %}
{% macro m1() %}{{ outer }}{% endmacro %}{% set outer = 'late' %}{{ m1() }}
{% macro m2() %}x{% endmacro %}{{ m2(1) }}
{% macro m3(a) %}x{% endmacro %}{{ m3(b=1) }}
{% macro m4() %}{% set i = 9 %}{{ i }}{% endmacro %}{{ m4() }}{{ i }}
{% filter upper %}abc{{ s }}{% endfilter %}{% filter trim | lower %}  ABC {% endfilter %}|
{% with a = 1, b = i %}{{ a }}{{ b }}{% set i = 3 %}{{ i }}{% endwith %}{{ i }}{{ a }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}
{% generation %}{{ s }}{% set s = 'inner' %}{{ s }}{% endgeneration %}{{ s }}
{% raw %}{{ x }}{% if %}{% endraw %}|{%- raw -%}  a {{ b }}  {%- endraw -%}  c
a {#- comment -#} b {# {{ x }} #} c
x  {%- if y -%}   z   {%- endif -%}   y
{{ 'a' 'b' "c" }}{{ 'a\n\t\\\'\"\x41\u4f60\101\q' }}{{ "it's" }}
{{ 1 + 2 * 3 - 4 / 2 }}|{{ 7 // 2 }}|{{ -7 // 2 }}|{{ 7 % 3 }}|{{ -7 % 3 }}|{{ 7 % -3 }}|{{ 2 ** 10 }}|{{ 2 ** -1 }}|{{ -2 ** 2 }}|{{ 2 ** 3 ** 2 }}
{{ 7.5 // 2 }}|{{ -7.5 % 2 }}|{{ 1 / 3 }}|{{ 1e3 }}|{{ 1.5e-7 }}|{{ 1e16 }}|{{ 123456789.123 }}|{{ 1_000 }}|{{ 0.1 + 0.2 }}|{{ 10 / 5 }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 + 'a' }}
{{ 'a' ~ 1 ~ n ~ [1] ~ missing ~ 2.0 ~ y }}{{ 'a' * 3 }}{{ 2 * [1, 2] }}{{ [1] + [2] }}{{ (1,) + (2,) }}{{ 'a' + 'b' }}{{ y + 1 }}
{{ 1 < 2 < 3 }}{{ 1 < 2 > 3 }}{{ 'a' < 'b' }}{{ [1, 2] < [1, 3] }}{{ 1 == 1.0 }}{{ '1' == 1 }}{{ y == 1 }}{{ n == no }}{{ missing == missing2 }}{{ l == [3, 1, 2] }}{{ l == (3, 1, 2) }}
{{ 1 < 'a' }}
{{ n < 1 }}
{{ 'ell' in s }}{{ 2 in l }}{{ 'a' in d }}{{ 'x' not in s }}{{ 'a' in missing }}{{ not 1 in l }}{{ 1 in (1, 2) }}
{{ 1 in s }}
{{ 1 in i }}
{{ y and s }}{{ e or 'x' }}{{ n and s }}{{ not e }}{{ not not s }}{{ 1 and 2 or 3 }}{{ missing or 'dflt' }}
{{ 'a' if y }}{{ 'a' if no }}{{ 'a' if no else 'b' }}{{ 'a' if no else 'b' if no else 'c' }}{{ ('a' if no) is defined }}
{{ l[0] }}{{ l[-1] }}{{ l[5] }}{{ l[1:] }}{{ l[:-1] }}{{ l[::-1] }}{{ l[::2] }}{{ s[0] }}{{ s[-1] }}{{ s[1:4] }}{{ s[::-1] }}{{ u[3:9:2] }}{{ u[6] }}{{ s[20:] }}{{ l[y] }}{{ (1, 2, 3)[1:] }}{{ l[10:1:-1] }}{{ l[-5:-1] }}
{{ d.a }}{{ d['a'] }}{{ d.zz }}{{ d['zz'] }}
{{ o['items'] }}{{ o.p.q.r }}{{ o.p.zz is defined }}{{ o.name }}{{ d.C.0 }}{{ d['C'][1] }}
{{ o.zz.yy }}
{{ missing.x }}
{{ missing['x'] }}
{{ missing() }}
{{ missing + 1 }}
{{ s() }}
{{ n.x }}{{ i.x }}{{ s.nope is defined }}
{{ l.__len__() }}
{{ l.append(4) }}
{{ d.update({'x': 1}) }}
{{ d.pop('a') }}
{{ {'a': 1, 'b': [1, {'c': none}], 1: 2, 1.5: true} }}{{ {} }}{{ () }}{{ (1,) }}{{ [] }}{{ {'a': 1, 'a': 2} }}{{ [1, [2.0, 'x', None, True]] }}
{{ t | trim }}|{{ t.strip() }}|{{ t.lstrip() }}|{{ t.rstrip() }}|{{ 'xxaxx' | trim('x') }}|{{ 'xyaxy'.strip('yx') }}|{{ i | trim }}
{{ s | upper }}{{ s | lower }}{{ s | title }}{{ s | capitalize }}{{ s.title() }}{{ u | upper }}{{ u.title() }}{{ "it's-a (test) [b]" | title }}{{ "it's-a (test)".title() }}{{ u | capitalize }}{{ n | upper }}{{ s.swapcase() }}
{{ s | length }}{{ u | length }}{{ l | length }}{{ d | length }}{{ missing | length }}{{ l | count }}
{{ n | length }}
{{ i | length }}
{{ l | first }}{{ l | last }}{{ el | first }}{{ s | first }}{{ u | last }}{{ d | first }}{{ d | last }}
{{ l | join }}{{ l | join(', ') }}{{ m | join('|') }}{{ rows | join(',', attribute='role') }}{{ rows | join(',', 'n') }}{{ s | join('.') }}{{ missing | join }}{{ l | join(1) }}
{{ s | replace('l', 'L') }}{{ s | replace('l', 'L', 1) }}{{ s.replace('o', '') }}{{ s.replace('', '-') }}{{ 'aaa'.replace('a', 'b', 2) }}{{ i | replace(7, 8) }}{{ s.replace('l', 'L', 0) }}
{{ missing | default('x') }}{{ n | default('x') }}{{ n | default('x', true) }}{{ e | d('y', boolean=True) }}{{ missing | default }}{{ missing | default(default_value=3) }}{{ s | default('x') }}
{{ s | list }}{{ d | list }}{{ (1, 2) | list }}{{ d.items() | list }}{{ d.keys() | list }}{{ d.values() | list }}{{ missing | list }}
{{ i | list }}
{{ i | string + 'x' }}{{ l | string | length }}{{ n | string }}{{ missing | string }}
{{ '12' | int }}{{ 'x' | int }}{{ 'x' | int(5) }}{{ '3.7' | int }}{{ 3.9 | int }}{{ -3.9 | int }}{{ y | int }}{{ n | int }}{{ l | int(default=1) }}{{ ' 12 ' | int }}{{ '+3' | int }}{{ '' | int }}
{{ '1.5' | float }}{{ 'x' | float }}{{ 3 | float }}{{ 'x' | float(2.5) }}{{ n | float }}{{ '1e3' | float }}
{% for k, v in d | items %}{{ k }}{{ v }}{% endfor %}{% for k, v in missing | items %}{% endfor %}
{{ l | items | list }}
{{ d | dictsort }}{{ d | dictsort(true) }}{{ {'a': 2, 'b': 1} | dictsort(by='value') }}{{ d | dictsort(reverse=true) }}
{{ l | sort }}{{ l | sort(reverse=true) }}{{ w | sort }}{{ w | sort(case_sensitive=true) }}{{ rows | sort(attribute='n') | map(attribute='n') | list }}{{ rows | sort(attribute='role,n') | map(attribute='role') | list }}{{ s | sort | join }}
{{ m | sort }}
{{ l | reverse | list }}{{ s | reverse }}{{ u | reverse }}{{ d | reverse | list }}
{{ w | map('upper') | list }}{{ rows | map(attribute='role') | join(',') }}{{ rows | map(attribute='tags', default='none') | list }}{{ l | map('string') | join }}{{ w | map('replace', 'b', 'x') | list }}
{{ rows | map(attribute='tags.0') | list }}
{{ l | map('nope') | list }}
{{ l | select('odd') | list }}{{ l | reject('odd') | list }}{{ m | select | list }}{{ m | reject | list }}{{ l | select('gt', 1) | list }}{{ l | select('in', [1, 2]) | list }}{{ l | select('>', 1) | list }}
{{ rows | selectattr('role', 'equalto', 'user') | list }}{{ rows | selectattr('tags') | list | length }}{{ rows | rejectattr('role', '==', 'user') | map(attribute='n') | list }}{{ rows | selectattr('tags', 'defined') | list | length }}{{ rows | rejectattr('tags') | list | length }}
{{ (rows | selectattr('role', 'equalto', 'nobody')) and 'true' }}{{ rows | selectattr('role', 'equalto', 'nobody') | first }}|{{ (rows | selectattr('n', 'ge', 2) | first).role }}
{{ rows | selectattr('role', 'equalto', 'user') | length }}
{{ [1, 2, 1, 'a', 'A', 'a'] | unique | list }}{{ w | unique | list }}{{ w | unique(case_sensitive=true) | list }}{{ rows | unique(attribute='role') | map(attribute='n') | list }}
{{ e | safe }}{{ '<a>' | safe | length }}{{ "<&>'\"" | escape | string }}{{ '<' | e | length }}
{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb\n\nc' | indent(2, true) }}|{{ 'a\n\nb' | indent(1, blank=true) }}|{{ 'a\nb' | indent('> ') }}|{{ '' | indent }}|{{ 'a\n' | indent }}
{{ 2.5 | round }}{{ 3.5 | round }}{{ 2.675 | round(2) }}{{ 5 | round }}{{ 2.1 | round(0, 'ceil') }}{{ 2.9 | round(method='floor') }}{{ 1234.5 | round(-2) }}{{ 2.345 | round(1, 'floor') }}
{{ -3 | abs }}{{ j | abs }}{{ g | abs }}{{ l | min }}{{ l | max }}{{ w | min }}{{ w | max }}{{ el | min }}{{ rows | max(attribute='n') }}{{ l | sum }}{{ rows | sum(attribute='n') }}{{ l | sum(start=10) }}{{ [1.5, 2] | sum }}
{{ [1, 2, 3, 4, 5] | batch(2) | list }}{{ [1, 2, 3] | batch(2, 'x') | list }}{{ el | batch(2) | list }}
{{ 'ab' | center(7) }}|{{ 'abc' | center(6) }}|{{ 'x'.ljust(3) }}|{{ 'x'.rjust(3, '.') }}|
{{ '%s and %s' | format(1, 'b') }}{{ '%d%%' % 5 }}{{ '%s' % 'x' }}{{ '%05.1f' | format(2.345) }}{{ '%.2f' % 1.005 }}{{ '%r' % ('x',) }}{{ '%s %s' % (1, [2]) }}
{{ '%s %s' % 1 }}
{{ '{} {}'.format(1, 'a') }}{{ '{0}{1}{0}'.format(1, 2) }}{{ '{a} {{x}}'.format(a=3) }}
{{ '{}'.format() }}
{{ tool | tojson }}
{{ tool | tojson(indent=2) }}
{{ tool | tojson(indent=4, sort_keys=true) }}|{{ d | tojson(separators=(',', ':')) }}|{{ u | tojson(ensure_ascii=true) }}|{{ q | tojson }}|{{ m | tojson }}
{{ [] | tojson(indent=2) }}{{ {} | tojson(indent=2) }}{{ [[]] | tojson(indent=1) }}{{ n | tojson }}{{ 1.0 | tojson }}{{ 1e20 | tojson }}{{ (1, 2) | tojson }}{{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}{{ '\x7f\x01' | tojson }}
{{ missing | tojson }}
{{ d.items() | tojson }}
{{ s is defined }}{{ missing is defined }}{{ missing is undefined }}{{ n is none }}{{ s is not none }}{{ s is string }}{{ i is string }}{{ d is mapping }}{{ l is mapping }}{{ l is iterable }}{{ s is iterable }}{{ i is iterable }}{{ l is sequence }}{{ s is sequence }}{{ d is sequence }}{{ i is sequence }}
{{ i is number }}{{ f is number }}{{ y is number }}{{ s is number }}{{ i is integer }}{{ f is integer }}{{ y is integer }}{{ f is float }}{{ i is float }}{{ y is boolean }}{{ i is boolean }}{{ y is true }}{{ no is false }}{{ 1 is true }}{{ n is false }}{{ i is odd }}{{ i is even }}{{ i is divisibleby 7 }}{{ i is divisibleby(3) }}
{{ y is sameas true }}{{ 1 is sameas true }}{{ i is eq 7 }}{{ i is equalto 8 }}{{ i is ne 7 }}{{ i is lt 8 }}{{ i is gt 8 }}{{ i is le 7 }}{{ i is ge(8) }}{{ i is lessthan 3 }}{{ i is greaterthan 3 }}{{ i is in [7] }}{{ i is not in [7] }}{{ 'x' is upper }}{{ 'X' is upper }}{{ 'x' is lower }}{{ range is callable }}{{ s is callable }}{{ 'upper' is filter }}{{ 'odd' is test }}{{ 'zz' is filter }}{{ s is escaped }}
{{ s is string and i is number }}{{ s is string or x.y }}{{ not s is string }}{{ (s is string) is true }}
{{ s.split() }}{{ t.split() }}{{ 'a,b,,c'.split(',') }}{{ 'a,b,c'.split(',', 1) }}{{ 'a b  c '.split(' ') }}{{ 'a,b,c'.rsplit(',', 1) }}{{ ' a b c '.split(none, 1) }}{{ ' a b c '.rsplit(none, 1) }}{{ ''.split() }}{{ ''.split(',') }}{{ 'a\nb\r\nc\n'.splitlines() }}{{ 'a\nb'.splitlines(true) }}
{{ 'a'.split('') }}
{{ s.startswith('he') }}{{ s.startswith(('x', 'h')) }}{{ s.endswith('ld') }}{{ s.endswith(()) }}{{ s.find('o') }}{{ s.rfind('o') }}{{ s.find('zz') }}{{ u.find('\u597d') }}{{ s.count('l') }}{{ 'aaaa'.count('aa') }}{{ s.count('') }}{{ s.index('W') }}
{{ s.startswith(['h']) }}
{{ s.index('zz') }}
{{ s.removeprefix('hello') }}{{ s.removesuffix('ld') }}{{ s.removeprefix('x') }}{{ s.partition(' ') }}{{ s.rpartition('o') }}{{ s.partition('zz') }}{{ ', '.join(w) }}{{ '-'.join('abc') }}{{ ','.join(d) }}
{{ ','.join(l) }}
{{ '12'.isdigit() }}{{ 'a1'.isdigit() }}{{ ''.isdigit() }}{{ 'ab'.isalpha() }}{{ 'a1'.isalnum() }}{{ ' '.isspace() }}{{ 'AB'.isupper() }}{{ 'A1'.isupper() }}{{ '1'.isupper() }}{{ 'ab'.islower() }}{{ '\u00b2'.isdigit() }}{{ '\u4f60'.isalpha() }}
{{ d.get('a') }}{{ d.get('zz') }}{{ d.get('zz', 'x') }}{{ d.keys() | join }}{{ l.index(2) }}{{ l.count(3) }}{{ (1, 2).index(2) }}
{{ range(3) | list }}{{ range(1, 7, 2) | list }}{{ range(3, 0, -1) | list }}{% for i in range(2) %}{{ i }}{% endfor %}{{ range(0) | length }}
{{ range(1, 2, 0) }}
{{ range(1000000) | length }}
{{ dict(a=1, b=2) }}{{ dict([['a', 1]]) }}{{ dict(d, z=1) }}
{{ raise_exception('no ' ~ s) }}
{{ strftime_now('%d %b %Y') }}{{ strftime_now('%Y-%m-%d %H:%M') }}{{ strftime_now is defined }}
{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m.content | trim + '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt is defined and add_generation_prompt %}x{% endif %}
{% set messages = messages[1:] %}{{ messages | length }}{{ messages[0]['role'] }}{{ messages[-1].content }}{{ (messages | last).role }}
{% if (messages[0].role == 'user') != (0 % 2 == 0) %}{{ raise_exception('x') }}{% endif %}ok
{% if not tools is defined %}{% set tools = none %}{% endif %}{{ tools }}{%- if tools is not none and tools | length > 0 %}x{% endif %}
{{ messages == messages[0:3] }}{{ messages[0] == messages[2] }}{{ messages[0] in messages }}{{ '}}' }}{{ '%}' }}{{ {'a': {'b': 1}} }}{{ "{{" }}
{{ [1, 2, 3][1:] | first }}{{ (-l) if no }}{{ not l }}{{ (l | length) - 1 }}{{ l | length - 1 }}{{ +i }}{{ - -i }}{{ 'a' ~ 'b' | upper }}{{ 1 + 2 ~ 3 }}{{ 2 * 3 ~ 4 }}
{{ s.upper().lower() }}{{ s | upper | lower }}{{ (s | upper).lower() }}{{ s.split(' ')[0] }}{{ s.split(' ')[-1][0] }}{{ s.split(' ') | last | upper }}
{{ loop }}{{ caller }}{{ varargs }}
{% for x in i %}{% endfor %}
{% for x in n %}{% endfor %}
{% break %}
{% if %}{% endif %}
{% if y %}
{% for x in l %}
{% endif %}
{{ }}
{{ s
{% set %}
{{ 'abc }}
{{ [1, 2 }}
{{ s | nofilter }}
{{ s is notest }}
{{ s. }}
{{ 1 2 }}
{# open
{% raw %}x
{% unknown %}
{{ a b }}
{{ (1 }}
{% for %}{% endfor %}
{% set true = 1 %}
{% macro %}{% endmacro %}
"""


# Cases of several lines.
BLOCKS = [
    " a\n  {% if y %}\n  b\n  {% endif %}\nc\n", "   {% for x in l %}\n   {{ x }}\n   {%- endfor %}\n\n", "{{ s }}\n{{ i }}\n\n",
    "   {{- s -}}   |   {%+ if y %}  x {% endif +%}\n z", "  {# a #}\n  b {# c #}\nd", "{% raw %}\n  {{ a }}\n  {% endraw %}\nb",
    "\t{% set a = 1 %}\n{{ a }}", "{{ 'x\\\ny' }}", "a\r\nb\r{% if y %}\r\nc{% endif %}\r\n", "\u00a0{% if y %}\n\u00a0x{% endif %}",
    "{{ s }}{% if y -%}\n\n  a\n{%- endif %}\n b\n", "a {%- raw %} b {% endraw -%} c\n\n d", "{{ '\n' }}|{{ 'a\r\nb' }}", "", "\n", "\n\n", "a\n",
    "{%\n  set\n  x = 1\n%}{{\nx\n}}", "{% if y %}\n\n{% endif %}\n", "x{%+ if y +%}\ny{% endif %}", "  {%- if y %}\n  z\n  {%- endif %}\n",
]


class Generation(Extension):
    """transformers' marker around an assistant's text: here it only has to be rendered."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError(message)


def environment():
    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.datetime(2024, 7, 9, 13, 5).strftime
    return env


BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "and", "or", "in", "not in"]
FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list", "string", "int", "float", "join('-')",
           "replace('l', '\u00e9')", "default('D')", "default('D', true)", "sort", "reverse|list", "unique|list", "abs", "round(1)", "min", "max",
           "sum", "tojson", "tojson(indent=2)", "map('string')|list", "select|list", "dictsort", "items|list", "indent(2)", "batch(2)|list"]
TESTS = ["defined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true", "odd", "lower", "in [1, 's', none]",
         "eq 7", "gt 1", "sameas none"]
METHODS = [".strip()", ".upper()", ".split()", ".split('l')", ".title()", ".startswith('h')", ".get('a')", ".keys()|list", ".items()|list", ".a",
           "['b']", "[0]", "[-1]", ".replace('o', '0')", ".find('l')", ".count('l')", ".index(1)", ".name", "['name']"]
LITERALS = ["1", "0", "-2", "3.5", "'a'", "'l'", "''", "[1, 'b']", "(1, 2)", "{'a': 1}", "true", "none", "[]", "missing"]


def expression(rng, depth):
    kind = rng.randrange(10 if depth > 0 else 2)
    inner = lambda: expression(rng, depth - 1)
    if kind < 2:
        return rng.choice(NAMES[:-2]) if rng.random() < 0.7 else rng.choice(LITERALS)
    if kind < 4:
        return f"({inner()} {rng.choice(BINARY)} {inner()})"
    if kind < 6:
        return f"({inner()})|{rng.choice(FILTERS)}"
    if kind == 6:
        return f"({inner()} is {rng.choice(['', 'not '])}{rng.choice(TESTS)})"
    if kind == 7:
        return f"({inner()}){rng.choice(METHODS)}"
    if kind == 8:
        return f"({inner()} if {inner()} else {inner()})"
    return f"[{inner()}, {inner()}]"


def render(env, source):
    """The text, or None on an error."""
    try:
        return env.from_string(source).render(**copy.deepcopy(CONTEXT))  # some filters modify their input
    except Exception:
        return None


def comparable(text):
    """Excludes output in Python-specific syntax, and integers beyond 64 bits, which are errors here."""
    if text is None:
        return True
    if len(text) > 400 or any(len(n) > 18 for n in re.findall(r"\d+", text)):
        return False
    return not any(word in text for word in (" object at 0x", "<built-in", "dict_", "<bound", "<function", "Markup", "<generator"))


def main():
    env = environment()
    out = [[source, render(env, source)] for source in CASES.strip("\n").split("\n") + BLOCKS]
    for source, text in out:
        if not comparable(text) and len(text) <= 400:
            print("not comparable:", source, text)
    rng, kept, errors = random.Random(11), set(), 0
    while len(kept) < 2500:
        source = "{{ " + expression(rng, 3) + " }}"
        text = render(env, source)
        if source in kept or not comparable(text):
            continue
        if text is None:
            errors += 1
            if errors > 600:
                continue
        kept.add(source)
        out.append([source, text])
    HERE.mkdir(exist_ok=True)
    golden = {"context": CONTEXT, "cases": out}
    (HERE / "golden.json").write_text(json.dumps(golden, separators=(",", ":")))
    print(len(out), "cases,", sum(t is None for _, t in out), "of them errors")


if __name__ == "__main__":
    main()
