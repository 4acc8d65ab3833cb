"""Images in the page: attached in each way, shown before and after sending, enlarged; refusals that lose no text."""

import base64
import re
import struct
import sys
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "system"))
import tiny_model  # noqa: E402
import tiny_vision  # noqa: E402
from safety_test import violations  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from tiny_vision import data_url, noise  # noqa: E402

RED, BLUE = (200, 30, 30), (30, 30, 200)
TRANSFER = """([kind, target, files, text]) => {
  const data = new DataTransfer();
  for (const [name, type, base64] of files) data.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name, { type }));
  if (text) data.setData("text/plain", text);
  const event = kind === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
    : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true });
  return document.querySelector(target).dispatchEvent(event);
}"""
# The width, the height and the color near each of the four corners of an image.
LOOKED_AT = """async (url) => {
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { width, height } = canvas;
  const main = (x, y) => ["red", "green", "blue"][[...context.getImageData(x, y, 1, 1).data].slice(0, 3).reduce((most, value, at, all) => (value > all[most] ? at : most), 0)];
  return [width, height, main(9, 9), main(width - 9, 9), main(9, height - 9), main(width - 9, height - 9)];
}"""
# A phone's photo: its left half is red and its right half blue, with noise, so that the file is large.
PHOTO = """async ([width, height]) => {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  const tile = context.createImageData(width, 64);
  for (let at = 0; at < tile.data.length; at += 4) {
    const left = (at / 4) % width < width / 2;
    tile.data.set([left ? 255 : Math.random() * 120, Math.random() * 120, left ? Math.random() * 120 : 255, 255], at);
  }
  for (let y = 0; y < height; y += 64) context.putImageData(tile, 0, y);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.95));
  const bytes = new Uint8Array(await blob.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 30000) text += String.fromCharCode(...bytes.subarray(at, at + 30000));
  return btoa(text);
}"""


def png(width, height, color=RED):
    rows = (b"\0" + bytes(color) * width) * height

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def turned(jpeg):
    """The file with the EXIF orientation 6: shown turned by 90 degrees clockwise."""
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


@pytest.fixture(scope="module")
def vision_model(tmp_path_factory):
    return tiny_vision.make(tmp_path_factory.mktemp("vision") / "model")


@pytest.fixture(scope="module")
def sees(vision_model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sees")
    with ServerProcess(vision_model, "--threads", 1, "--store-path", folder / "store", folder=folder) as server:
        yield server.wait_until_ready()


@pytest.fixture
def limited(vision_model, tmp_path):
    """A server with the smallest limit of a request."""
    with ServerProcess(vision_model, "--threads", 1, "--store-path", tmp_path / "store", "--max-request-mb", 4, folder=tmp_path) as server:
        yield server.wait_until_ready()


class Images:
    """The page of a model that reads images."""

    def __init__(self, chat):
        self.chat, self.page = chat, chat.page
        self.chips = self.page.get_by_role("list", name="Attached files").get_by_role("listitem")
        self.alert = self.page.get_by_role("alert")
        self.sent = chat.questions.locator("img")
        self.large = self.page.get_by_role("dialog").locator("img")
        chat.prefer(temperature=0, max_output_tokens=4)
        expect(self.page.get_by_role("button", name=re.compile("^Attach"))).to_be_visible()

    def give(self, *files, by="drop", target=None, text=""):
        """Drops or pastes (name, bytes) or (name, bytes, type). Returns whether the browser would handle them, too."""
        encoded = [[name, *(more or ["image/png"]), base64.b64encode(data).decode()] for name, data, *more in files]
        return self.page.evaluate(TRANSFER, [by, target or ("#composer-text" if by == "paste" else "#main"), encoded, text])

    def attach(self, *files, **how):
        before = self.chips.count()
        self.give(*files, **how)
        expect(self.chips).to_have_count(before + len(files))

    def send(self, text):
        before = self.chat.answers.count()
        self.chat.ask(text)
        expect(self.chat.answers).to_have_count(before + 1)
        self.chat.settled()

    def stored(self):
        """Each question's parts on the server: "text", or the image's data URL."""
        items = self.chat.server_items(self.chat.id())
        return [[part.get("image_url") or part["text"] for part in item["content"]] for item in items if item["role"] == "user"]

    def fits(self):
        """Nothing is wider than the window."""
        return self.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('#scroll, #composer, dialog')].every((box) => box.scrollWidth <= box.clientWidth)")


def without_limit(route):
    answer = route.fetch()
    models = answer.json()
    for model in models["data"]:
        del model["ringside"]["max_request_bytes"]
    route.fulfill(response=answer, json=models)


@pytest.fixture
def images(sees, tab):
    """`old`: the server does not report its limit of a request."""
    def open(server=sees, old=False, **options):
        chat = tab(server, **options)
        if old:
            chat.page.route("**/v1/models", without_limit)
            chat.page.reload()
            chat.loaded()
        if server is sees:
            expect(chat.page.get_by_role("button", name="Attach images, text or PDF files")).to_be_visible()
        return Images(chat)
    return open


@pytest.mark.parametrize("way", ["chooser", "paste", "drop"])
def test_attached_image_is_shown_and_can_be_removed(images, way):
    chat = images()
    chat.chat.box.fill("What is it?")
    if way == "chooser":
        with chat.page.expect_file_chooser() as chooser:
            chat.page.get_by_role("button", name="Attach images").click()
        chooser.value.set_files([{"name": "red.png", "mimeType": "image/png", "buffer": png(60, 40)}])
    else:
        assert not chat.give(("red.png", png(60, 40)), by=way), "the browser would open the file"
    expect(chat.chips).to_have_text(["red.png"])
    preview = chat.chips.locator("img")
    assert preview.evaluate("(image) => image.decode().then(() => [image.naturalWidth, image.naturalHeight])") == [60, 40]
    assert preview.bounding_box()["height"] >= 40
    chat.page.get_by_role("button", name="Remove red.png").click()
    expect(chat.chips).to_have_count(0)
    expect(chat.chat.box).to_have_value("What is it?")
    expect(chat.chat.box).to_be_focused()


def test_images_stay_with_their_message(images, sees, tab):
    chat = images()
    foreign = []
    files = [png(60, 40, RED), png(40, 60, BLUE)]
    chat.page.context.on("request", lambda request: foreign.append(request.url) if f"127.0.0.1:{sees.port}/" not in request.url and not request.url.startswith("data:image/") else None)
    chat.attach(("red.png", files[0]), ("blue.png", files[1]))
    chat.send("Which is red?")
    expect(chat.chips).to_have_count(0)
    sizes = lambda page: page.questions.locator("img").evaluate_all("async (all) => { await Promise.all(all.map((one) => one.decode())); return all.map((one) => [one.naturalWidth, one.alt]); }")
    both = [[60, "Image 1"], [40, "Image 2"]]
    assert chat.stored() == [[data_url(files[0]), data_url(files[1]), "Which is red?"]]
    assert sizes(chat.chat) == both
    chat.page.reload()
    chat.chat.loaded()
    assert sizes(chat.chat) == both
    other = tab(sees, f"/#/{chat.chat.id()}", beside=chat.chat)
    other.loaded()
    assert sizes(other) == both
    # An image without text is a message, too; the other window shows it.
    chat.attach(("blue.png", files[1]))
    expect(chat.page.get_by_role("button", name="Send", exact=True)).to_be_enabled()
    chat.send("")
    expect(other.questions).to_have_count(2)
    expect(other.questions.last.locator("img")).to_have_attribute("src", data_url(files[1]))
    other.settled()
    assert foreign == []


def test_edited_message_keeps_its_images(images):
    chat = images()
    chat.attach(("red.png", png(60, 40)))
    chat.send("What is it?")
    chat.chat.begin_edit()
    expect(chat.sent).to_be_visible()
    chat.page.keyboard.press("Escape")
    chat.chat.edit_last("And now?")
    expect(chat.page.get_by_text("2/2")).to_be_visible()
    chat.chat.settled()
    assert chat.stored() == [[data_url(png(60, 40)), "And now?"]]


def test_keyboard_alone_attaches_sends_and_enlarges(images):
    chat = images()
    keys = chat.page.keyboard
    chat.chat.box.focus()
    with chat.page.expect_file_chooser() as chooser:
        keys.press("Shift+Tab")
        keys.press("Enter")
    chooser.value.set_files([{"name": f"{name}.png", "mimeType": "image/png", "buffer": png(60, 40, color)} for name, color in (("red", RED), ("blue", BLUE), ("third", BLUE))])
    expect(chat.chips).to_have_count(3)
    chat.chat.box.focus()
    keys.press("Shift+Tab")
    keys.press("Shift+Tab")
    expect(chat.page.get_by_role("button", name="Remove third.png")).to_be_focused()
    keys.press("Enter")
    expect(chat.chips).to_have_count(2)
    # The preview opens large, and the focus returns.
    chat.page.get_by_role("button", name="Show blue.png larger").focus()
    keys.press("Enter")
    expect(chat.page.get_by_role("dialog", name="blue.png")).to_be_visible()
    keys.press("Escape")
    expect(chat.page.get_by_role("button", name="Show blue.png larger")).to_be_focused()
    chat.chat.box.focus()
    keys.type("Which?")
    keys.press("Enter")
    expect(chat.chat.answers).to_have_count(1)
    chat.chat.settled()
    show = chat.page.get_by_role("button", name="Show image 1 larger")
    show.focus()
    keys.press("Enter")
    expect(chat.page.get_by_role("dialog", name="Image 1")).to_be_visible()
    expect(chat.large).to_have_attribute("src", data_url(png(60, 40, RED)))
    for key, number in (("ArrowRight", 2), ("ArrowLeft", 1), ("ArrowLeft", 2)):  # the last image precedes the first one
        keys.press(key)
        expect(chat.page.get_by_role("dialog", name=f"Image {number}")).to_be_visible()
    expect(chat.large).to_have_attribute("src", data_url(png(60, 40, BLUE)))
    chat.page.get_by_role("button", name="Next image").click()
    expect(chat.page.get_by_role("dialog", name="Image 1")).to_be_visible()
    keys.press("Escape")
    expect(chat.page.get_by_role("dialog")).to_have_count(0)
    expect(show).to_be_focused()


@pytest.mark.parametrize("file,reason", [
    (("broken.png", png(60, 40)[:50]), "broken.png cannot be read as an image."),
    (("words.png", b"only words"), "words.png cannot be read as an image."),
    (("program", b"\x7fELF\0\1", ""), "program is neither a text nor a PDF file.")])
def test_files_that_are_no_images_are_refused(images, file, reason):
    chat = images()
    chat.chat.box.fill("My text")
    chat.give(("red.png", png(60, 40)), file, ("blue.png", png(60, 40)))
    expect(chat.alert).to_contain_text(reason)
    expect(chat.chips).to_have_text(["red.png", "blue.png"])
    expect(chat.chat.box).to_have_value("My text")


def test_model_without_images_refuses_them(images, server):
    chat = images(server)
    expect(chat.page.get_by_role("button", name="Attach text or PDF files")).to_be_visible()
    chat.chat.box.fill("My text")
    chat.give(("red.png", png(60, 40)), by="paste")
    expect(chat.alert).to_contain_text("red.png was not attached: this model reads no images.")
    expect(chat.chat.box).to_have_value("My text")
    expect(chat.chips).to_have_count(0)


def test_image_is_accepted_before_the_model_is_known(sees, tab):
    page = tab(sees, lost_lines=True)
    page.page.route("**/v1/models", lambda route: route.fulfill(status=503, json={"error": {"message": "starting"}}))
    page.page.reload()
    expect(page.page.get_by_role("button", name="Attach text or PDF files")).to_be_visible()
    Images(page).attach(("red.png", png(60, 40)))
    page.page.unroute_all(behavior="wait")


def test_picked_model_decides_about_images(start, tab, tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    tiny_vision.make(folder / "alpha")
    tiny_model.make(folder / "bravo.gguf", endless=True)
    page = tab(start("--models-dir", folder, model=None))
    choice = page.page.get_by_label("Model", exact=True)
    expect(choice).to_have_value("alpha")
    choice.select_option("bravo")
    page.ask_and_wait("Hello")
    page.page.reload()
    page.loaded()
    expect(choice).to_be_disabled()
    chat = Images(page)
    chat.give(("red.png", png(60, 40)))
    expect(chat.alert).to_contain_text("this model reads no images")
    page.begin_new()
    choice.select_option("alpha")
    chat.attach(("red.png", png(60, 40)))


def test_large_photo_becomes_small_and_stays_upright(images):
    chat = images()
    photo = turned(base64.b64decode(chat.page.evaluate(PHOTO, [2600, 1952])))
    assert len(photo) > 3_000_000
    chat.attach(("photo.jpg", photo, "image/jpeg"))
    chat.send("What is it?")
    sent = chat.stored()[0][0]
    assert len(sent) < 4_000_000
    assert chat.page.evaluate(LOOKED_AT, sent) == [1538, 2048, "red", "red", "blue", "blue"]
    # A small file is sent as it is, with its orientation.
    small = turned(base64.b64decode(chat.page.evaluate(PHOTO, [128, 64])))
    chat.attach(("small.jpg", small, "image/jpeg"))
    chat.send("And this?")
    assert chat.stored()[1][0] == "data:image/jpeg;base64," + base64.b64encode(small).decode()


def test_limit_of_a_message_follows_the_servers(images):
    chat = images()
    large = noise(860)
    assert 2_000_000 < len(large) < 22_000_000 / 8
    chat.attach(*[(f"{n}.png", noise(560, n)) for n in range(4)], ("large.png", large))
    chat.send("What are they?")
    sent = chat.stored()[0]
    assert sent[4] == data_url(large), "an eighth of the limit is sent as it is"
    assert sum(len(part) for part in sent) > 4 << 20
    chat.attach(*[(f"{n}.png", large) for n in range(9)])
    chat.give(("9.png", large))
    expect(chat.alert).to_contain_text("9.png was not attached: the images of a message may have 22.0 MB in all.")
    chat.page.reload()
    chat.chat.loaded()
    # The text has its own limit.
    chat.attach(*[(f"{n}.txt", b"long line\n" * 90_000, "text/plain") for n in range(5)])
    chat.chat.box.press("Enter")
    expect(chat.alert).to_contain_text("larger than 4.1 MB")
    expect(chat.chips).to_have_count(5)


def test_images_beyond_the_limit_of_a_message_are_refused(images, limited):
    chat = images(limited)
    chat.chat.box.fill("My text")
    file = noise(560)
    assert 900_000 < len(file) < 1_000_000
    chat.give(*[(f"{n}.png", file) for n in range(4)])
    expect(chat.alert).to_contain_text("3.png was not attached: the images of a message may have 3.1 MB in all.")
    expect(chat.chips).to_have_text(["0.png", "1.png", "2.png"])
    expect(chat.chat.box).to_have_value("My text")


def test_message_beyond_the_limit_is_not_sent(images, sees):
    chat = images(sees, old=True)
    file = noise(560)
    chat.attach(*[(f"{n}.png", file) for n in range(3)])
    chat.give(("long.txt", b"long line\n" * 90_000, "text/plain"))
    expect(chat.chips).to_have_count(4)
    chat.chat.box.fill("My text")
    chat.chat.box.press("Enter")
    expect(chat.alert).to_contain_text("limit")
    expect(chat.chat.box).to_have_value("My text")
    expect(chat.chips).to_have_count(4)


def test_refused_message_returns_with_its_images(images, sees):
    chat = images()
    chat.page.route("**/input_tokens", lambda route: route.fulfill(json={"input_tokens": 5}))
    chat.attach(("red.png", png(60, 40)))
    chat.chat.ask("a long question " * 60)
    failed = chat.page.locator(".failed")
    expect(failed).to_contain_text("more tokens than the model reads")
    expect(chat.sent).to_have_count(1)
    chat.page.reload()
    failed.get_by_role("button", name="Edit").click()
    expect(chat.chat.box).to_have_value("a long question " * 60)
    expect(chat.chips).to_have_count(1)
    chat.chat.box.fill("Short")
    chat.chat.box.press("Enter")
    expect(chat.chat.answers).to_have_count(1)
    chat.chat.settled()
    assert chat.stored() == [[data_url(png(60, 40)), "Short"]]
    chat.page.unroute_all(behavior="wait")


def test_images_beyond_the_browsers_storage_do_not_take_the_text_along(images):
    chat = images()
    chat.send("Hello")
    # No message leaves the page before the reload.
    chat.page.evaluate("() => { WebSocket.prototype.send = () => {}; localStorage.setItem('filler', 'x'.repeat(4_500_000)); }")
    chat.attach(("noise.png", noise(560)))
    chat.chat.ask("My text")
    expect(chat.chat.questions).to_have_count(2)
    chat.page.evaluate("() => localStorage.removeItem('filler')")
    chat.page.reload()
    failed = chat.page.locator(".failed")
    expect(failed).to_contain_text("attach them again")
    expect(failed.get_by_role("button", name="Try again")).to_have_count(0)
    failed.get_by_role("button", name="Edit").click()
    expect(chat.chat.box).to_have_value("My text")


def test_message_waits_until_its_image_is_read(images):
    chat = images()
    chat.page.evaluate("""() => {
      const decode = createImageBitmap;
      window.createImageBitmap = (...args) => new Promise((resolve) => { window.readNow = resolve; }).then(() => decode(...args));
    }""")
    chat.give(("red.png", png(60, 40)), by="paste")
    chat.page.wait_for_function("() => window.readNow")
    chat.chat.ask("What is it?")
    expect(chat.chat.box).to_have_value("What is it?")
    chat.page.evaluate("() => readNow()")
    expect(chat.chat.answers).to_have_count(1)
    chat.chat.settled()
    assert chat.stored() == [[data_url(png(60, 40)), "What is it?"]]


def test_images_of_a_draft_stay_while_another_conversation_is_open(images):
    chat = images()
    other = chat.chat.make(("user", "Hi"), ("assistant", "Hello"))
    chat.attach(("red.png", png(60, 40)))
    chat.chat.open(other)
    expect(chat.chips).to_have_count(0)
    chat.chat.begin_new()
    expect(chat.chips).to_have_text(["red.png"])


def test_pasted_files_with_their_names_as_text(images):
    chat = images()
    chat.attach(("red.png", png(60, 40)), by="paste", text="/home/me/red.png")
    expect(chat.chat.box).to_have_value("")
    # Cells of a spreadsheet are copied as text and as a picture; the text is pasted.
    assert chat.give(("image.png", png(60, 40)), by="paste", text="1\t2")
    expect(chat.chips).to_have_count(1)


def test_image_is_pasted_or_dropped_anywhere(images):
    chat = images()
    chat.page.evaluate("() => document.activeElement.blur()")
    chat.attach(("red.png", png(60, 40)), by="paste", target="body")
    assert not chat.give(("blue.png", png(60, 40)), target="#sidebar"), "the browser would leave the page"
    expect(chat.chips).to_have_text(["red.png", "blue.png"])
    # But not into another field.
    assert chat.give(("third.png", png(60, 40)), by="paste", target="#sidebar input[type=search]")
    expect(chat.chips).to_have_count(2)


def test_drawing_is_attached_as_text(images):
    chat = images()
    drawing = b'<svg xmlns="http://www.w3.org/2000/svg"><rect width="9" height="9"/></svg>'
    chat.attach(("drawing.svg", drawing, "image/svg+xml"))
    expect(chat.chips.locator("img")).to_have_count(0)
    chat.send("What is it?")
    assert chat.stored() == [["What is it?\n\nFile: drawing.svg\n````\n" + drawing.decode() + "\n````"]]


def test_saved_markdown_has_the_images(images):
    chat = images()
    chat.attach(("red.png", png(60, 40)))
    chat.send("What is it?")
    with chat.page.expect_download() as download:
        chat.page.get_by_role("button", name="More for What is it?").first.click()
        chat.page.get_by_role("menuitem", name="Save as Markdown").click()
    assert f"## You\n\n![Image 1]({data_url(png(60, 40))})\n\nWhat is it?\n" in Path(download.value.path()).read_text()


@pytest.mark.parametrize("scheme,width", [("light", 1440), ("dark", 360)])
def test_images_are_accessible_and_fit(images, scheme, width):
    chat = images(viewport={"width": width, "height": 740}, color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    wide, tall = png(2000, 60), png(30, 1900, BLUE)
    chat.attach(("a name that is far longer than the screen of a phone is wide.png", wide), ("tall.png", tall))
    assert violations(chat.page) == [] and chat.fits()
    chat.give(("b" * 100 + ".png", b"words"))
    expect(chat.alert).to_be_visible()
    assert violations(chat.page) == [] and chat.fits()
    chat.send("Which is tall?")
    expect(chat.sent).to_have_count(2)
    assert violations(chat.page) == [] and chat.fits()
    for n in (1, 2):
        chat.page.get_by_role("button", name=f"Show image {n} larger").click()
        expect(chat.large).to_be_visible()
        box = chat.large.bounding_box()
        assert box["x"] >= 0 and box["y"] >= 0 and box["x"] + box["width"] <= width and box["y"] + box["height"] <= 740
        assert violations(chat.page) == [] and chat.fits()
        chat.page.keyboard.press("Escape")


def test_shared_conversation_shows_its_images(images, tab, sees):
    chat = images()
    chat.attach(("red.png", png(60, 40)))
    chat.send("What is it?")
    link = chat.chat.call("POST", f"/v1/conversations/{chat.chat.id()}/shares", {})
    reader = tab(sees, f"/shared#{link['token']}")
    reader.page.get_by_role("button", name="Show image 1 larger").click()
    expect(reader.page.get_by_role("dialog", name="Image 1").locator("img")).to_have_attribute("src", data_url(png(60, 40)))
