"""A model that reads images, for system tests: the golden Mistral 3 with random weights and a chat template; and pictures
of noise.

Other pixels give other answers.
"""

import base64
import random
import shutil
import struct
import zlib
from pathlib import Path

TINY = Path(__file__).resolve().parents[1] / "golden/vision/mistral3"
TEMPLATE = """{% for message in messages %}{{ message.role }}: {% if message.content is string %}{{ message.content }}{% else %}
{%- for part in message.content %}{% if part.type == 'image' %}[IMG]{% else %}{{ part.text }}{% endif %}{% endfor %}
{%- endif %}</s>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""


def make(folder):
    """Returns the path of the model, a new folder."""
    shutil.copytree(TINY, folder)
    Path(folder, "chat_template.jinja").write_text(TEMPLATE)
    return str(folder)


def noise(side, seed=0):
    """A PNG of side x side pixels and 3 bytes per pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    dice = random.Random(seed)
    rows = b"".join(b"\0" + dice.randbytes(3 * side) for _ in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 0)) + chunk(b"IEND", b"")


def data_url(file):
    return "data:image/png;base64," + base64.b64encode(file).decode()
