"""What the Python kernel shows of a value that has more to show than its text: a part of python.py, its `kernel`."""

_io, sys = kernel._io, kernel.sys
encode, plain = kernel.encode, kernel.plain

RICH_MAX, PICTURE_MAX = 4 << 20, (8 << 20) * 4 // 3 + 4
METHODS = (("json", "_repr_json_"), ("markdown", "_repr_markdown_"), ("svg", "_repr_svg_"), ("latex", "_repr_latex_"),
           ("html", "_repr_html_"), ("png", "_repr_png_"), ("jpeg", "_repr_jpeg_"))
MIMES = {"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "application/json": "json",
         "image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg", "text/latex": "latex"}


def picture(data):
    """In base64, whether it was or not."""
    from binascii import a2b_base64, b2a_base64
    return b2a_base64(a2b_base64(data) if issubclass(type(data), str) else data, newline=False).decode()


def ask(value, method):
    """What a method of its class says, or None. It is no fault of the call if that fails."""
    function = getattr(type(value), method, None)
    try:
        data = function(value) if function else None
    except Exception:
        return None
    return data[0] if type(data) is tuple and data else data


def figure_png(value):
    """Of a figure of matplotlib, which is shown once."""
    library = sys.modules.get("matplotlib.figure")
    if not library or not isinstance(value, library.Figure):
        return None
    data = _io.BytesIO()
    value.savefig(data, format="png", bbox_inches="tight")
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(value)
    return data.getvalue()


def forms(value, text):
    """All that it can be shown as, whatever the size."""
    found = {"text": text}
    if issubclass(type(value), (dict, list, str, int, float)):
        found["json"] = value
    for name, method in METHODS:
        if (data := ask(value, method)) is not None:
            found[name] = data
    if data := figure_png(value):
        found["png"] = data
    bundle = ask(value, "_repr_mimebundle_")
    if type(bundle) is dict:
        found.update({MIMES[mime]: data for mime, data in bundle.items() if mime in MIMES and data is not None})
    return found


def fit(name, data):
    """(as it is reported, how large that is, how large it may be)"""
    if name in ("png", "jpeg"):
        data, most = picture(data), PICTURE_MAX
    elif name == "json":
        room, most = [kernel.JSON_ITEMS_MAX], kernel.TEXT_MAX
        try:
            data = plain(data, room)
        except TypeError:
            if room[0] >= 0:
                raise
            return None, most + 1, most
    else:
        data, most = str.__str__(data), RICH_MAX
    return data, len(encode(data)), most


def result_of(value, text):
    """What is too large is cut or left out, and said so."""
    found = forms(value, text)
    whole, result, notes = str(found.pop("text")), {}, ""
    text = kernel.cut(whole, kernel.TEXT_MAX)
    room, is_cut = kernel.LINE_MAX - len(encode(text)) - 4096, text is not whole
    for name, data in found.items():
        try:
            data, size, most = fit(name, data)
        except Exception:
            continue  # it is not of the kind that its name says
        if size <= min(most, room):
            result[name], room = data, room - size
            continue
        is_cut = True
        if name != "json":
            notes += f"\n[{name} is left out: {size} bytes are too many]"
    return {"text": text + notes, **result, **({"truncated": True} if is_cut else {})}


def show_figures(*_arguments, **_options):
    """Every figure of matplotlib that is open."""
    pyplot = sys.modules["matplotlib.pyplot"]
    try:
        for number in pyplot.get_fignums():
            kernel.display(pyplot.figure(number))
    finally:
        pyplot.close("all")
