"""Markdown rendering, and that a streamed answer ends up identical to one rendered at once."""

import random

import pytest

CODE = '<figure class="code" data-language="{0}"><figcaption><span>{1}</span>'


@pytest.fixture(scope="module")
def page(renderer):
    renderer.evaluate(
        """async () => {
          const { LiveText } = await import("/page/text/live_text.js");
          // Lets a text grow to each of these lengths, with a frame for each.
          window.grown = async (text, ends) => {
            const box = document.createElement("div");
            document.body.append(box);
            const writer = new LiveText(box);
            for (const end of ends) {
              writer.set(text.slice(0, end));
              await new Promise(requestAnimationFrame);
            }
            writer.set(text);
            writer.finish();
            box.remove();
            return box.innerHTML;
          };
        }""")
    return renderer


def a(address, text):
    return f'<a href="{address}" target="_blank" rel="noopener noreferrer nofollow">{text}</a>'


CASES = [
    ("plain text", "<p>plain text</p>"),
    ("one\ntwo\n\nthree", "<p>one\ntwo</p><p>three</p>"),
    ("one  \ntwo\\\nthree", "<p>one<br>two<br>three</p>"),
    ("# One\n### Three ###\n####### no", "<h3>One</h3><h4>Three</h4><p>####### no</p>"),
    ("*a* **b** ***c*** ~~d~~ _e_ __f__", "<p><em>a</em> <strong>b</strong> <strong><em>c</em></strong> <del>d</del> <em>e</em> <strong>f</strong></p>"),
    ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
    ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
    ("**open and *never closed", "<p>**open and *never closed</p>"),
    ("`code *not* em` and ``a ` b``", "<p><code>code *not* em</code> and <code>a ` b</code></p>"),
    ("`never closed", "<p>`never closed</p>"),
    (r"\*plain\* \_x\_ \\", r"<p>*plain* _x_ \</p>"),
    ("a &amp; b &lt;i&gt; &copy;", "<p>a &amp; b &lt;i&gt; &amp;copy;</p>"),
    ("[text](https://example.org/a?b=c)", f"<p>{a('https://example.org/a?b=c', 'text')}</p>"),
    ('[**bold**](https://example.org "title")', f"<p>{a('https://example.org/', '<strong>bold</strong>')}</p>"),
    ("[wiki](https://example.org/a_(b))", f"<p>{a('https://example.org/a_(b)', 'wiki')}</p>"),
    ("[mail](mailto:a@example.org)", f"<p>{a('mailto:a@example.org', 'mail')}</p>"),
    ("see https://example.org/x, or (https://example.org).",
     f"<p>see {a('https://example.org/x', 'https://example.org/x')}, or ({a('https://example.org/', 'https://example.org')}).</p>"),
    ("<https://example.org> <a@example.org>",
     f"<p>{a('https://example.org/', 'https://example.org')} {a('mailto:a@example.org', 'a@example.org')}</p>"),
    ("![a picture](https://example.org/p.png)", f"<p>{a('https://example.org/p.png', 'a picture')}</p>"),
    ("[not a link] and [this](neither", "<p>[not a link] and [this](neither</p>"),
    ("- a\n- b\n  - c\n- d", '<ul><li><span class="tight">a</span></li><li><span class="tight">b</span><ul><li><span class="tight">c</span></li></ul></li>'
     '<li><span class="tight">d</span></li></ul>'),
    ("3. a\n4. b", '<ol start="3"><li><span class="tight">a</span></li><li><span class="tight">b</span></li></ol>'),
    ("1. a\n\n   more\n\n2. b", "<ol><li><p>a</p><p>more</p></li><li><p>b</p></li></ol>"),
    ("- a\n\n- b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>"),
    ("text\n- a\n\nafter", '<p>text</p><ul><li><span class="tight">a</span></li></ul><p>after</p>'),
    ("> a\n> b\nlazy\n>\n> - c", '<blockquote><p>a\nb\nlazy</p><ul><li><span class="tight">c</span></li></ul></blockquote>'),
    ("a\n\n---\n\nb\n***", "<p>a</p><hr><p>b</p><hr>"),
    ("a <br> b<br/>c", "<p>a <br> b<br>c</p>"),
    ("a[^1]\n\n[^1]: The *note*\n    continued.\n[^b]: Two",
     '<p>a<sup><button type="button" class="reference" aria-label="Footnote 1">1</button></sup></p>'
     '<div class="footnote" data-note="1" tabindex="-1"><span class="label">1</span><div>The <em>note</em>\ncontinued.</div></div>'
     '<div class="footnote" data-note="b" tabindex="-1"><span class="label">b</span><div>Two</div></div>'),
    ("[^ no] [^1](https://example.org/)", f"<p>[^ no] {a('https://example.org/', '^1')}</p>"),
]


@pytest.mark.parametrize("source,markup", CASES, ids=[str(i) for i in range(len(CASES))])
def test_rendered_html(page, source, markup):
    assert page.evaluate("(text) => whole(text)", source) == markup


def test_code(page):
    html = page.evaluate("(text) => whole(text)", "```python\ndef f(x):\n    return '<b>' # done\n```\nafter")
    assert html.startswith(CODE.format("python", "python"))
    assert '<span class="t-word">def</span> <span class="t-call">f</span>(x):\n    <span class="t-word">return</span> ' in html
    assert "<span class=\"t-string\">'&lt;b&gt;'</span> <span class=\"t-comment\"># done</span></code>" in html
    assert html.endswith("<p>after</p>")
    # An unclosed fence, and one inside a list.
    assert "<code>x = 1</code>" in page.evaluate("(text) => whole(text)", "```\nx = 1")
    listed = page.evaluate("(text) => whole(text)", "1. a\n   ```\n   x\n     y\n   ```\n2. b")
    assert "<code>x\n  y</code>" in listed and listed.count("<li>") == 2 and listed.count("<ol") == 1


def test_task_lists_and_tables(page):
    tasks = page.evaluate("(text) => whole(text)", "- [ ] a\n- [x] b")
    assert tasks.count('class="task"') == 2 and 'aria-label="done"' in tasks and 'aria-label="to do"' in tasks
    table = page.evaluate("(text) => whole(text)", "| a | b |\n|:-:|--:|\n| 1 | `x|y` \\| |\n| 2 |\n\nend")
    assert '<th class="short align-center" scope="col">a</th><th class="short align-right" scope="col">b</th>' in table
    assert table.count("<tr>") == 3 and table.endswith("<p>end</p>")


TEXT = r"""# A title

Some *text* with **bold `code`** and [a link](https://example.org/path), then more of it
on a second line.

- one
- two
  ```python
  def f():
      return "```"
  ```
- three

  with a paragraph

1. first
2. second

> quoted
> ```
> code
> ```

| a | b |
|---|---|
| 1 | 2 |

```js
const x = `a ${b}`; // and
```

Inline $a_1$, then
\[
\frac{a}{b}
\]
and $$c$$ with a note[^1].

[^1]: A note

````call look_up
{"a": 1}
````

~~~
plain ``` fence
~~~
last words *open
"""


def test_streamed_text_renders_like_complete_text(page):
    whole = page.evaluate("(text) => whole(text)", TEXT)
    ends = list(range(len(TEXT) + 1))
    assert page.evaluate("([text, ends]) => grown(text, ends)", [TEXT, ends]) == whole
    rng = random.Random(17)
    pieces = ["*", "**", "`", "```\n", "~~~\n", "\n", "\n\n", "- ", "  ", "1. ", "> ", "| a | b |\n", "|---|---|\n", "# ", "[x](", "https://a.b)",
              "text ", "\\", "<b>", "&amp;", "![", "---\n", "    ", "_", "\t", "$", "$$\n", "\\[\n", "\\]\n", "[^1]", "[^1]: ", "````call f\n"]
    for _ in range(60):
        text = "".join(rng.choice(pieces) for _ in range(rng.randint(5, 60)))
        ends = sorted(rng.sample(range(len(text)), min(6, len(text))))
        assert page.evaluate("([text, ends]) => grown(text, ends)", [text, ends]) == page.evaluate("(text) => whole(text)", text), (text, ends)


def test_hostile_texts_render_quickly(page):
    """Rendering is linear in the text: ten times the text must not take a hundred times as long. No timing is needed; a
    quadratic implementation would take hours here."""
    for piece in ("*", "**a", "`", "`" * 3 + "a ", "[", "![", "](", "[a](", "<", "~~", "_a", "> ", "- ", "1. ", "|", "\\", "&", "* a\n", ">\n",
                  "http://", "[](<", "# ", "``` ", "| a ", "a_", "  - b\n"):
        text = piece * (100_000 // len(piece))
        page.evaluate("(text) => whole(text).length", text)
    nested = "".join(" " * (2 * depth) + "- a\n" for depth in range(300))
    page.evaluate("(text) => whole(text).length", nested)
    page.evaluate("(text) => whole(text).length", ">" * 5000 + " a\n" * 50)
