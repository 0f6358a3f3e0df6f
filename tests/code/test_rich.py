"""Values as the libraries that people really use show them: data frames of pandas, figures of matplotlib."""

import base64
import os
import re
import struct
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

# pylint: disable=wrong-import-position
from code_api import begin, delete, make, run, value  # noqa: E402
from ground import check, equal, main  # noqa: E402

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)
FRAME = "import pandas as pd\ndf = pd.DataFrame({'city': ['Ulm', 'Köln'], 'people': [128, 1084]}, index=['a', 'b'])\n"
# Red and blue halves: colours that are counted, and no lines that are smoothed.
PLOT = ("import matplotlib.pyplot as plt\nfig = plt.figure(figsize=(4, 3), dpi=100)\n"
        "plt.bar([0, 1], [1, 1], width=1, color=['#ff0000', '#0000ff'])\n")


def chunks_of(data):
    """(name, bytes) of a PNG, each with its right checksum."""
    equal(data[:8], b"\x89PNG\r\n\x1a\n", "what every PNG begins with")
    at, found = 8, []
    while at < len(data):
        size, name = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        equal(struct.unpack(">I", data[at + 8 + size:at + 12 + size])[0], zlib.crc32(name + body), f"checksum of {name}")
        found.append((name, body))
        at += 12 + size
    equal(found[-1][0], b"IEND", "the last chunk")
    return found


def paeth(left, up, corner):
    guess = left + up - corner
    return min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]


def unfilter(kind, row, before, step):
    """A row of bytes as it was before it was made ready to be compressed."""
    for i, byte in enumerate(row):
        left, corner = (row[i - step], before[i - step]) if i >= step else (0, 0)
        row[i] = (byte + (0, left, before[i], (left + before[i]) // 2, paeth(left, before[i], corner))[kind]) & 255
    return row


def pixels_of(data):
    """(width, height, how often each colour is there) of a PNG with 8 bits a channel."""
    chunks = chunks_of(data)
    width, height, depth, colour, _, _, is_interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    equal((chunks[0][0], depth, is_interlaced), (b"IHDR", 8, 0), "its head")
    step = {2: 3, 6: 4}[colour]
    raw = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    equal(len(raw), height * (1 + width * step), "bytes of the picture")
    before, counts = bytearray(width * step), {}
    for y in range(height):
        at = y * (1 + width * step)
        before = unfilter(raw[at], bytearray(raw[at + 1:at + 1 + width * step]), before, step)
        for x in range(0, len(before), step):
            pixel = tuple(before[x:x + 3])
            counts[pixel] = counts.get(pixel, 0) + 1
    return width, height, counts


def pictures(answer):
    equal((answer["reason"], answer["error"]), ("completed", None), answer)
    return [base64.b64decode(r["png"], validate=True) for r in answer["results"] if "png" in r]


def check_plot(data, width=400, height=300):
    """What PLOT draws: what is empty around it is cut off."""
    wide, high, counts = pixels_of(data)
    check(0.7 * width < wide <= width + 20 and 0.7 * height < high <= height + 20, f"{wide} x {high} pixels")
    all_of_them = wide * high
    check(min(counts.get(RED, 0), counts.get(BLUE, 0)) > all_of_them // 5, "red and blue:", counts.get(RED), counts.get(BLUE))
    check(counts.get(WHITE, 0) > all_of_them // 50, "white:", counts.get(WHITE))


def test_data_frame(g):
    """A data frame is a table in HTML and in text, as a value and by display()."""
    answer = run(g, FRAME + "df")
    equal((answer["reason"], answer["error"], len(answer["results"])), ("completed", None, 1), answer)
    table = answer["results"][0]
    equal(table["text"].split(), ["city", "people", "a", "Ulm", "128", "b", "Köln", "1084"], table["text"])
    check("<table" in table["html"] and table["html"].count("<tr") == 3, table["html"])
    equal(re.findall(r"<t[hd]>([^<]*)</t[hd]>", table["html"]),
          ["", "city", "people", "a", "Ulm", "128", "b", "Köln", "1084"], table["html"])
    answer = run(g, "display(df.head(1)); df['people'].sum()")
    equal(["html" in r for r in answer["results"]], [True, False], answer)
    equal(answer["results"][1]["text"], "1212", answer)
    answer = run(g, "df['people']")
    check("1084" in answer["results"][0]["text"] and "html" not in answer["results"][0], "a series has text alone", answer)


def test_large_frame(g):
    """Of a large one pandas shows a part, and its numbers are those of the whole."""
    answer = run(g, "import pandas as pd\nbig = pd.DataFrame({'n': range(1_000_000)})\nbig")
    table = answer["results"][0]
    check("1000000 rows" in table["html"] and "..." in table["text"] and len(table["html"]) < 1 << 16, table)
    equal(value(g, "int(big['n'].sum())"), "499999500000", "its sum")
    answer = run(g, "big['missing']")
    equal((answer["error"]["name"], answer["error"]["line"]), ("KeyError", 1), answer)
    check(not any("kernels" in line for line in answer["error"]["traceback"]), answer)


def test_frame_from_files(g):
    """What one call writes as CSV another context reads as the same table."""
    run(g, FRAME + "df.to_csv('/workspace/cities.csv')")
    other = make(g, language="python")["id"]
    answer = run(g, "import pandas\npandas.read_csv('/workspace/cities.csv', index_col=0).sort_values('people')", context=other)
    equal(answer["results"][0]["text"].split()[-3:], ["b", "Köln", "1084"], answer)
    delete(g, other)


def test_plot_at_the_end(g):
    """A figure that is open at the end of a call is a picture, once."""
    shown = pictures(run(g, PLOT))
    equal(len(shown), 1, "pictures")
    check_plot(shown[0])
    equal(pictures(run(g, "plt.get_fignums()")), [], "none is shown again")
    shown = pictures(run(g, PLOT + "fig"))
    equal(len(shown), 1, "the figure as the value is one picture")
    check_plot(shown[0])


def test_plot_by_show(g):
    """plt.show() shows where it stands: behind what is printed before it."""
    events = list(begin(g, PLOT + "print('before', flush=True)\nplt.show()\nprint('after')\n"))
    printed = b"".join(data for name, data in events if name == "stdout")
    at = [name for name, _ in events].index("result")
    equal((printed, events[0][1][:7], events[-1][0]), (b"before\nafter\n", b"before\n", "done"), events)
    check(at > 0, events)
    check_plot(base64.b64decode(events[at][1]["png"], validate=True))
    two = pictures(run(g, PLOT + PLOT.replace("(4, 3)", "(8, 6)") + "plt.show()"))
    equal(len(two), 2, "both that are open")
    check_plot(two[0])
    check_plot(two[1], 800, 600)


def test_plot_of_frame(g):
    """pandas draws by matplotlib; what it returns is text, and its figure a picture."""
    answer = run(g, FRAME + "df.plot.bar(y='people', color='#ff0000', figsize=(4, 3))")
    shown = pictures(answer)
    equal(len(shown), 1, "pictures")
    _, _, counts = pixels_of(shown[0])
    check(counts.get(RED, 0) > 1000, "red:", counts.get(RED))
    check(any("Axes" in r["text"] for r in answer["results"]), [r["text"] for r in answer["results"]])


def test_plot_and_error(g):
    """What was drawn before an error is shown with it; the context stays."""
    answer = run(g, PLOT + "1 / 0")
    equal(answer["error"]["name"], "ZeroDivisionError", answer)
    equal(len([r for r in answer["results"] if "png" in r]), 1, "pictures")
    equal(value(g, "6 * 7"), "42", "after it")


def test_pictures_in_other_forms(g):
    """SVG of matplotlib, JPEG by its MIME type, and an image of Pillow, which shows itself."""
    code = (PLOT + "import io\nfile = io.BytesIO(); fig.savefig(file, format='svg'); plt.close(fig)\n"
            "class Vector:\n    def _repr_svg_(self): return file.getvalue().decode()\nVector()")
    svg = run(g, code)["results"][-1]["svg"]
    check("<svg" in svg and "#ff0000" in svg and svg.rstrip().endswith("</svg>"), svg[:500])
    code = ("from PIL import Image\nimport io\nfile = io.BytesIO(); Image.new('RGB', (64, 48), '#ff0000').save(file, 'JPEG')\n"
            "class Photo:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "        return {'image/jpeg': file.getvalue(), 'text/plain': 'a photo'}\nPhoto()")
    photo = run(g, code)["results"][-1]
    data = base64.b64decode(photo["jpeg"], validate=True)
    equal((data[:3], data[-2:], photo["text"]), (b"\xff\xd8\xff", b"\xff\xd9", "a photo"), "a JPEG")
    image = pictures(run(g, "Image.new('RGB', (64, 48), '#ff0000')"))
    equal(pixels_of(image[0]), (64, 48, {RED: 64 * 48}), "an image of Pillow shows itself as PNG")


def test_in_run(g):
    """A run has the same libraries; its value is what JSON can hold."""
    reply = g.request("POST", "/v1/runs", {"language": "python", "input": [[3, 4]], "code": (
        "import pandas as pd\ndef main(x):\n    return pd.DataFrame({'x': x}).describe()['x'].to_dict()\n")})
    equal(reply.status, 200, reply)
    record = reply.json()
    equal((record["status"], record["error"]), ("completed", None), record)
    equal((record["result"]["count"], record["result"]["mean"], record["result"]["max"]), (2, 3.5, 4), record["result"])


TESTS = [test_data_frame, test_large_frame, test_frame_from_files, test_plot_at_the_end, test_plot_by_show, test_plot_of_frame,
         test_plot_and_error, test_pictures_in_other_forms, test_in_run]

if __name__ == "__main__":
    main(TESTS)
