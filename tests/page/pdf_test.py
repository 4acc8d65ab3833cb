"""PDF files that are attached to a message: their text, and what is refused."""

import base64
import random
import zlib

import pytest
from playwright.sync_api import expect

READ = """async (files) => {
  const { readPdf } = await import("/page/pdf/pdf.js");
  const results = [];
  for (const file of files) results.push(await readPdf(Uint8Array.from(atob(file), (c) => c.charCodeAt(0))));
  return results;
}"""
HELVETICA = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"


def stream(content, entries=b"", compress=True):
    if compress:
        content, entries = zlib.compress(content), entries + b" /Filter /FlateDecode"
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(content), content)


def pdf(content, fonts=None, extra=None, trailer=b"", page=b""):
    """A file of one page: `content` is its stream object, `extra` further objects by number."""
    resources = b" ".join(b"/%s %d 0 R" % (name, 10 + i) for i, name in enumerate(fonts or {b"F": HELVETICA}))
    objects = {1: b"<< /Type /Catalog /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
               3: b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << %s >> %s >> >>" % (resources, page),
               4: content} | {10 + i: font for i, font in enumerate((fonts or {b"F": HELVETICA}).values())} | (extra or {})
    return b"%PDF-1.7\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in objects.items()) + b"trailer\n<< /Root 1 0 R %s >>\n%%%%EOF" % trailer


def shows(operators):
    return stream(b"BT /F 12 Tf 72 700 Td " + operators + b" ET")


def read(page, *files):
    return page.page.evaluate(READ, [base64.b64encode(file).decode() for file in files])


TABLE = b"1 begincodespacerange <0000> <ffff> endcodespacerange 1 beginbfchar <0001> <041f0440> endbfchar 2 beginbfrange <0002> <0004> <0061> <0010> <0011> [<00660069> <d83dde00>] endbfrange"
WIDE = b"<< /Type /Font /Subtype /Type0 /Encoding /Identity-H /ToUnicode 20 0 R /DescendantFonts [<< /W [1 [500] 2 17 600] >>] >>"
NAMED = b"<< /Type /Font /Subtype /Type1 /Encoding << /Differences [1 /fi /Lslash /uni20AC /a.alt /g17] >> >>"
FORM = stream(b"BT /F 12 Tf 72 600 Td (in a form) Tj /X Do ET", b"/Type /XObject /Subtype /Form")


@pytest.mark.parametrize("file,text", [
    (pdf(shows(b"(Plain \\(text\\) \\\n\\101\\\\) Tj")), "Plain (text) A\\"),
    (pdf(shows(b"(Gr\xf6\xdfe \x80 \x93x\x94) Tj")), "Größe € “x”"),
    (pdf(shows(b"(One) Tj 0 -14 Td (Two) Tj T* 0 -40 Td <54687265> Tj (e) Tj")), "One\nTwo\n\nThree"),
    (pdf(shows(b"14 TL (a) Tj (b) ' 1 2 (c) \"")), "a\nb\nc"),
    (pdf(shows(b"[(W) 80 (or) -20 (d) -400 (gap)] TJ")), "Word gap"),
    (pdf(shows(b"[<0001> -500 <000200030004>] TJ <00100011> Tj"), {b"F": WIDE}, {20: stream(TABLE)}), "Пр abcfi😀"),
    (pdf(shows(b"<0102030401> Tj"), {b"F": NAMED}), "fiŁ€afi"),
    (pdf(shows(b"(own ) Tj /X Do"), extra={30: FORM}, page=b"/XObject << /X 30 0 R >>"), "own\n\nin a form"),
    (pdf(stream(base64.a85encode(b"BT /F 12 Tf (ascii) Tj ET") + b"~>", b"/Filter /ASCII85Decode", compress=False)), "ascii"),
    (pdf(shows(b"BI /W 1 /H 1 ID (no) Tj \xff\x00 EI (after an image) Tj")), "after an image"),
    (pdf(shows(b"(old) Tj")) + b"\n4 0 obj\n" + shows(b"(new) Tj") + b"\nendobj\n", "new"),
    (pdf(b"[5 0 R 6 0 R]", extra={5: shows(b"(two ) Tj"), 6: shows(b"0 -9 Td (parts) Tj")}), "two\nparts"),
    (pdf(shows(b"(long) Tj").replace(b"/Length", b"/Length 999999 /Was")), "long"),
])
def test_text(shared_page, file, text):
    assert read(shared_page, file) == [{"text": text, "pages": 1}]


@pytest.fixture(scope="module")
def shared_page(shared_server, browser):
    context = browser.new_context()
    page = type("Page", (), {"page": context.new_page()})
    page.page.goto(f"http://127.0.0.1:{shared_server.port}/")
    yield page
    context.close()


def test_objects_in_streams(shared_page):
    """As most writers do since PDF 1.5: all but the streams is in an object stream, and there is no trailer."""
    inner = [(1, b"<< /Type /Catalog /Pages 2 0 R >>"), (2, b"<< /Kids [3 0 R] >>"), (3, b"<< /Contents 4 0 R /Resources << /Font << /F 5 0 R >> >> >>"), (5, HELVETICA)]
    index, bodies = b"", b""
    for number, body in inner:
        index, bodies = index + b"%d %d " % (number, len(bodies)), bodies + body + b" "
    objects = {4: shows(b"(packed) Tj"), 6: stream(index + bodies, b"/Type /ObjStm /N 4 /First %d" % len(index)), 7: stream(b"\0", b"/Type /XRef /Root 1 0 R")}
    file = b"%PDF-1.5\n" + b"".join(b"%d 0 obj\n%s\nendobj\n" % item for item in objects.items())
    assert read(shared_page, file) == [{"text": "packed", "pages": 1}]


@pytest.mark.parametrize("file,reason", [
    (pdf(shows(b"(secret) Tj"), trailer=b"/Encrypt << /Filter /Standard >>"), "encrypted"),
    (pdf(stream(b"q 595 0 0 842 0 0 cm /Scan Do Q")), "no_text"),
    (pdf(shows(b"<00010002> Tj"), {b"F": WIDE.replace(b"/ToUnicode 20 0 R", b"")}), "no_text"),
    (b"%PDF-1.7 nothing else", "damaged"),
    (pdf(stream(b"\0" * (200 << 20))), "too_large"),
    (pdf(shows(b"(aaaaaaaaaaaaaaaaaaaa) Tj " * 60_000)), "too_large"),
    (pdf(shows(b"/X Do " * 10_000), extra={30: stream(b"/X Do " * 10_000, b"/Subtype /Form /Resources << /XObject << /X 30 0 R >> >>")},
         page=b"/XObject << /X 30 0 R >>"), "too_large"),
    (pdf(shows(b"(a) Tj")).replace(b"/Kids [3 0 R]", b"/Kids [2 0 R]"), "damaged"),
    (b"%PDF-1.7\n" + b"".join(b"\n%d 0 obj (" % number for number in range(200_000)), "too_large"),
    (b"%PDF-1.7\n" + b"\n1 0 obj [<<" * 300_000, "damaged"),
])
def test_refusals_are_bounded(shared_page, file, reason):
    assert read(shared_page, file) == [{"refused": reason}]


def test_tables_of_fonts_are_bounded(shared_page):
    ranges = b"beginbfrange " + b"<0000> <ffff> <0041> " * 200_000 + b"endbfrange"
    wide = WIDE.replace(b"/W [1", b"/W [" + b"0 65535 500 " * 100_000 + b"1")
    assert read(shared_page, pdf(shows(b"<0001> Tj"), {b"F": wide}, {20: stream(ranges)})) == [{"text": "B", "pages": 1}]


def test_damaged_files_end(shared_page):
    """Mutations of a file with all features give a text or a refusal."""
    whole = pdf(shows(b"(own ) Tj /X Do <0102> Tj [(a) -300 (b)] TJ"), {b"F": WIDE, b"N": NAMED}, {20: stream(TABLE), 30: FORM}, page=b"/XObject << /X 30 0 R >>")
    rng, files = random.Random(5), []
    for _ in range(300):
        file = bytearray(whole)
        for _ in range(rng.randrange(1, 20)):
            at = rng.randrange(len(file))
            file[at:at + rng.randrange(0, 4)] = rng.randbytes(rng.randrange(0, 4))
        files.append(bytes(file[:rng.randrange(len(file))] if rng.random() < 0.2 else file))
    results = read(shared_page, *files)
    assert len(results) == 300
    assert all(result.get("text") or result["refused"] in ("encrypted", "no_text", "too_large", "damaged") for result in results)


def test_pdf_is_attached_and_sent(server, tab, tmp_path):
    page = tab(server)
    page.prefer(temperature=0, max_output_tokens=8)
    (tmp_path / "report.pdf").write_bytes(pdf(shows(b"(Bees make honey.) Tj")))
    (tmp_path / "locked.pdf").write_bytes(pdf(shows(b"(secret) Tj"), trailer=b"/Encrypt << >>"))
    page.page.locator("#composer input[type=file]").set_input_files([tmp_path / "report.pdf", tmp_path / "locked.pdf"])
    expect(page.page.get_by_role("list", name="Attached files").get_by_role("listitem")).to_contain_text(["report.pdf"])
    expect(page.page.get_by_role("alert")).to_contain_text("locked.pdf is encrypted")
    page.ask("What is in it?")
    expect(page.answers).to_have_count(1)
    page.settled()
    assert page.items()[0] == ("user", "What is in it?\n\nFile: report.pdf\n````\nBees make honey.\n````")
