"""TeX as MathML: the subset, what stays text, and that copying yields the source."""

import random
import re

import pytest
from playwright.sync_api import expect


@pytest.fixture
def page(renderer):
    return renderer


def math(page, tex):
    """The MathML of an inline formula, without attributes."""
    html = page.evaluate("(text) => whole(text)", f"\\({tex}\\)")
    found = re.fullmatch(r'<p><span class="math(?: long)?" data-tex="[^"]*"><math>(.*)</math></span></p>', html, re.DOTALL)
    assert found, html
    return re.sub(r" [a-z]+=\"[^\"]*\"", "", found[1])


FORMULAS = [
    (r"E = mc^2", "<mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup>"),
    (r"x_1^{2n}", "<msubsup><mi>x</mi><mn>1</mn><mrow><mn>2</mn><mi>n</mi></mrow></msubsup>"),
    (r"x^23", "<msup><mi>x</mi><mn>2</mn></msup><mn>3</mn>"),
    (r"f''(x)", "<msup><mi>f</mi><mo>′′</mo></msup><mo>(</mo><mi>x</mi><mo>)</mo>"),
    (r"\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
    (r"\frac{a+b}{c}", "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>"),
    (r"\sqrt{2} \sqrt[3]{x}", "<msqrt><mn>2</mn></msqrt><mroot><mi>x</mi><mn>3</mn></mroot>"),
    (r"\alpha \Omega \infty", "<mi>α</mi><mi>Ω</mi><mi>∞</mi>"),
    (r"a \leq b \neq c", "<mi>a</mi><mo>≤</mo><mi>b</mi><mo>≠</mo><mi>c</mi>"),
    (r"\sum_{i=1}^n i", "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>"),
    (r"\int_0^1 f", "<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup><mi>f</mi>"),
    (r"\lim_{x\to0} \sin x", "<munder><mo>lim</mo><mrow><mi>x</mi><mo>→</mo><mn>0</mn></mrow></munder><mo>sin</mo><mi>x</mi>"),
    (r"\mathbb{R} \mathcal{L} \mathbf{v1}", "<mi>ℝ</mi><mi>ℒ</mi><mrow><mi>𝐯</mi><mn>𝟏</mn></mrow>"),
    (r"\mathrm{Var}(X)", "<mi>Var</mi><mo>(</mo><mi>X</mi><mo>)</mo>"),
    (r"\operatorname{rank} A", "<mo>rank</mo><mi>A</mi>"),
    (r"\text{if } x", "<mrow><mtext>if&nbsp;</mtext></mrow><mi>x</mi>"),
    (r"\left( \frac{a}{b} \right]", "<mrow><mo>(</mo><mfrac><mi>a</mi><mi>b</mi></mfrac><mo>]</mo></mrow>"),
    (r"\left\{ x \middle| y \right.", "<mrow><mo>{</mo><mi>x</mi><mo>|</mo><mi>y</mi><mo></mo></mrow>"),
    (r"\vec{v} \hat x \overline{AB}", "<mover><mi>v</mi><mo>→</mo></mover><mover><mi>x</mi><mo>^</mo></mover><mover><mrow><mi>A</mi><mi>B</mi></mrow><mo>‾</mo></mover>"),
    (r"\underbrace{a+b}_{n}", "<munder><munder><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mo>⏟</mo></munder><mi>n</mi></munder>"),
    (r"\binom{n}{k}", "<mrow><mo>(</mo><mfrac><mi>n</mi><mi>k</mi></mfrac><mo>)</mo></mrow>"),
    (r"1,000.5 + 1,2", "<mn>1,000.5</mn><mo>+</mo><mn>1</mn><mo>,</mo><mn>2</mn>"),
    (r"a \not= b \pmod{7}", "<mi>a</mi><mo>=\u0338</mo><mi>b</mi><mrow><mspace></mspace><mo>(</mo><mo>mod</mo><mn>7</mn><mo>)</mo></mrow>"),
    (r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
     "<mrow><mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable><mo>)</mo></mrow>"),
    (r"\begin{cases} 0 & x < 0 \\ 1 \end{cases}",
     "<mrow><mo>{</mo><mtable><mtr><mtd><mn>0</mn></mtd><mtd><mi>x</mi><mo>&lt;</mo><mn>0</mn></mtd></mtr><mtr><mtd><mn>1</mn></mtd></mtr></mtable></mrow>"),
    (r"\begin{aligned} a &= b \\ &= c \end{aligned}",
     "<mtable><mtr><mtd><mi>a</mi></mtd><mtd><mrow></mrow><mo>=</mo><mi>b</mi></mtd></mtr><mtr><mtd></mtd><mtd><mrow></mrow><mo>=</mo><mi>c</mi></mtd></mtr></mtable>"),
]


@pytest.mark.parametrize("tex,markup", FORMULAS, ids=[tex for tex, _ in FORMULAS])
def test_formula(page, tex, markup):
    assert math(page, tex) == markup


INVALID = [r"\frac{a}", r"\unknown", r"x^2^3", r"{a", r"a}", r"\left( x", r"\begin{matrix} a", r"\begin{matrix}a\end{pmatrix}", r"\begin{constructor}a\end{constructor}",
           r"\constructor", r"a & b", r"\def\x{1}", r"\href{javascript:pwned()}{x}", r"\text{\foo}", r"#", "{" * 100 + "}" * 100, "x" * 20000]


@pytest.mark.parametrize("tex", INVALID, ids=range(len(INVALID)))
def test_invalid_source_stays_visible(page, tex):
    display = page.evaluate("(text) => { const box = document.createElement('div'); box.innerHTML === ''; return whole(text); }", f"\\[\n{tex}\n\\]")
    assert display == f'<div class="math raw">\\[\n{tex.replace("&", "&amp;")}\n\\]</div>'
    assert "<math" not in page.evaluate("(text) => whole(text)", f"\\({tex}\\)")


@pytest.mark.parametrize("text", ["costs $5 and $6", "$5, and €6 ($7)", "US$5 or US$6", "$HOME and $PATH", "`$a$`", "5$ and 6$", "$ a $", r"\$a\$", "$5 (or 6 euros$)",
                                  "an unclosed $x", r"\(", "$$", "```\n$$x$$\n```"])
def test_text_without_formulas(page, text):
    assert "<math" not in page.evaluate("(text) => whole(text)", text)


@pytest.mark.parametrize("text,formulas", [("$x$", 1), ("let $n$ be, the $n$th", 2), ("$$x$$", 1), ("before $$x$$ after", 1), (r"\[x\]", 1), ("\\[\nx\n\\]\nthen", 1),
                                           ("We have\n$$\nx\n$$\nand so on", 1), ("- a\n  $$\n  x\n  $$\n- b", 1), ("> $$x$$", 1), ("$a_1$ and *b* and $c_2$", 2),
                                           ("\\begin{align}\na &= b\n\\end{align}", 1), ("$$\nx\n$$.", 1), ("| $a$ | $b$ |\n|---|---|\n| $c$ | d |", 3)])
def test_text_with_formulas(page, text, formulas):
    html = page.evaluate("(text) => whole(text)", text)
    assert html.count("<math") == formulas and "$" not in re.sub(r'data-tex="[^"]*"', "", html)


def test_formulas_stay_within_the_work_of_their_length(page):
    """A quadratic reader would take hours."""
    for piece in ("$", "$a", "$$", r"\(", r"\[", r"$a\$", r"\(a\)", "$a$ ", r"\begin{align}", "$$a\n", r"\[a"):
        text = piece * (100_000 // len(piece))
        page.evaluate("(text) => whole(text).length", text)
    rng = random.Random(5)
    pieces = [r"\frac", "{", "}", "x", "^", "_", r"\left(", r"\right)", "&", r"\\", r"\begin{matrix}", r"\end{matrix}", r"\text", "[", "]", r"\sqrt", "'", "$", " ", "%", "\n"]
    for _ in range(400):
        page.evaluate("(text) => whole(text).length", f"\\({''.join(rng.choice(pieces) for _ in range(rng.randint(1, 40)))}\\)")


def test_copy_yields_the_source(server, tab):
    page = tab(server)
    text = "Let $x_1 \\le 2$ hold.\n\n\\[\n\\frac{a}{b}\n\\]\n\nThen *it* does."
    page.open(page.make(("user", "Formulas"), ("assistant", text)))
    body = page.answers.last.locator(".body")
    expect(body.locator("math")).to_have_count(2)
    copied = page.page.evaluate(
        """() => {
          getSelection().selectAllChildren(document.querySelector(".message.assistant .body"));
          const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), cancelable: true, bubbles: true });
          document.querySelector(".message.assistant .body").dispatchEvent(event);
          return event.clipboardData.getData("text/plain");
        }""")
    assert [line for line in copied.split("\n") if line] == ["Let $x_1 \\le 2$ hold.", "\\[", "\\frac{a}{b}", "\\]", "Then it does."]
    # A selection that begins inside a formula has its whole source.
    copied = page.page.evaluate(
        """() => {
          const body = document.querySelector(".message.assistant .body");
          getSelection().setBaseAndExtent(body.querySelector("mn"), 0, body.querySelector("p").lastChild, 3);
          const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), cancelable: true, bubbles: true });
          body.dispatchEvent(event);
          return event.clipboardData.getData("text/plain");
        }""")
    assert copied == "$x_1 \\le 2$ ho"
    # Without a formula the browser copies.
    assert page.page.evaluate(
        """() => {
          getSelection().selectAllChildren(document.querySelector(".message.assistant .body > p:last-child"));
          const event = new ClipboardEvent("copy", { clipboardData: new DataTransfer(), cancelable: true, bubbles: true });
          document.body.dispatchEvent(event);
          return event.defaultPrevented;
        }""") is False
