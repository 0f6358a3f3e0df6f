"""Is the contract whole, and does it say what the route table and base/err.c say?

usage: test_document.py SOURCE_ROOT LIST_ROUTES VERSION
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

import jsonschema

from document import Document, walk
from tap import Tap


def routes_agree(tap, document, list_routes):
    text = subprocess.run([list_routes], check=True, capture_output=True, text=True).stdout
    rows = [line.split(" ") for line in text.splitlines()]
    # OpenAPI has no word for "the rest of the path".
    rows = [[m, pattern.replace("...}", "}"), b, o] for m, pattern, b, o in rows]
    coded = {(method, pattern): is_open == "open" for method, pattern, _, is_open in rows}
    tap.equal(len(coded), len(rows), "each route is there once")
    written = {(m, path): document.is_open(o) for m, path, o in document.operations()}
    tap.equal(sorted(coded.keys() - written.keys()), [], "routes that the contract lacks")
    tap.equal(sorted(written.keys() - coded.keys()), [], "operations that have no route")
    for key in coded.keys() & written.keys():
        tap.equal(coded[key], written[key], f"{key} is open")
    for method, pattern, body_max, _ in rows:
        if (method, pattern) in written:
            operation = document.root["paths"][pattern][method.lower()]
            tap.equal("requestBody" in operation, body_max != "-", f"{pattern} takes a body")


def codes_agree(tap, document, source_root):
    with open(os.path.join(source_root, "base/err.c"), encoding="utf-8") as file:
        coded = re.findall(r'^\s*\[ERR_\w+\]\s*=\s*"(\w+)",$', file.read(), re.M)
    tap.check(len(coded) > 20, "the list of codes in base/err.c was not found")
    coded.remove("none")
    tap.equal(document.root["components"]["schemas"]["ErrorCode"]["enum"], coded, "error codes")


def references_resolve(tap, document):
    count = 0
    for where, node in walk(document.root, "#"):
        if isinstance(node, dict) and isinstance(node.get("$ref"), str):
            count += 1
            try:
                document.resolve(node)
            except jsonschema.RefResolutionError as error:
                tap.check(False, f"{where}: {error}")
    tap.check(count > 10, f"only {count} references were found")


def components_are_used(tap, document):
    used = {n["$ref"] for _, n in walk(document.root, "#") if isinstance(n, dict) and "$ref" in n}
    for kind, members in document.root["components"].items():
        for name, member in members.items():
            if kind == "securitySchemes" or "x-status" in member:
                continue
            tap.check(f"#/components/{kind}/{name}" in used, f"{kind}/{name} is not used")


def operations_are_whole(tap, document):
    ids, tags = set(), {tag["name"] for tag in document.root["tags"]}
    for method, path, operation in document.operations():
        where = f"{method} {path}"
        for field in ("operationId", "summary", "description"):
            tap.check(operation.get(field, "").strip(), f"{where} has no {field}")
        tap.check(operation["operationId"] not in ids, f"{where}: its operationId is taken")
        ids.add(operation["operationId"])
        tap.check(operation["tags"] and set(operation["tags"]) <= tags, f"{where}: unknown tag")
        answers = {s: document.resolve(r) for s, r in operation["responses"].items()}
        for status, answer in answers.items():
            tap.check(answer.get("description"), f"{where} {status} has no description")
            for media in answer.get("content", {}).values():
                tap.check(media.get("examples"), f"{where} {status} has no example")
                tap.check(media.get("schema"), f"{where} {status} has no schema")
        tap.check(any(s[0] == "2" or s == "101" for s in answers), f"{where} never succeeds")
        tap.equal("401" in answers, not document.is_open(operation), f"{where} documents 401")


def schemas_are_valid(tap, document):
    for where, node in walk(document.root, "#"):
        if where.endswith("/schema") or re.fullmatch(r"#/components/schemas/\w+", where):
            jsonschema.Draft202012Validator.check_schema(node)
    for name, schema in document.root["components"]["schemas"].items():
        for field, value in schema.get("properties", {}).items():
            described = document.resolve(value).get("description") or value.get("description")
            tap.check(described, f"{name}.{field} has no description")
        missing = set(schema.get("required", [])) - set(schema.get("properties", {}))
        tap.equal(missing, set(), f"{name} requires fields that it does not have")


def examples_fit(tap, document):
    count = 0
    for where, value, schema in document.examples():
        count += 1
        for problem in document.errors_of(value, schema):
            tap.check(False, f"{where}: {problem}")
    tap.check(count > 10, f"only {count} examples were found")


def versions_agree(tap, document, version):
    tap.equal(document.root["openapi"][:4], "3.1.", "the version of OpenAPI")
    tap.equal(document.root["info"]["title"], "Berth", "title")
    tap.equal(document.root["info"]["version"], version, "the version of Berth")


class PageParser(HTMLParser):
    """Collects ids and links, and refuses what a static page must not have."""

    def __init__(self, tap):
        super().__init__()
        self.tap, self.open, self.ids, self.links = tap, [], [], []

    def handle_starttag(self, tag, attrs):
        self.tap.check(tag not in ("script", "img", "link", "iframe", "object"), f"<{tag}> found")
        for name, value in attrs:
            self.tap.check(not name.startswith("on"), f"{name}= found")
            self.ids += [value] if name == "id" else []
            self.links += [value] if name in ("href", "src") else []
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.tap.equal(self.open.pop() if self.open else None, tag, f"closed at {self.getpos()}")


def make_page(source_root, root):
    with tempfile.TemporaryDirectory() as directory:
        source, target = os.path.join(directory, "in.json"), os.path.join(directory, "out.html")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(root, file)
        script = os.path.join(source_root, "scripts/openapi-html")
        subprocess.run([sys.executable, "-B", script, source, target], check=True)
        with open(target, encoding="utf-8") as file:
            return file.read()


def page_is_whole(tap, document, source_root):
    page = make_page(source_root, document.root)
    parser = PageParser(tap)
    parser.feed(page)
    tap.equal(parser.open, [], "elements left open")
    tap.equal(len(parser.ids), len(set(parser.ids)), "ids are unique")
    for link in parser.links:
        tap.check(link[1:] in parser.ids if link[0] == "#" else False, f"{link} leads nowhere")
    for _, path, operation in document.operations():
        tap.check(path in page and operation["operationId"].lower() in parser.ids, f"{path} is missing")
    for name in document.root["components"]["schemas"]:
        tap.check(f"schema-{name.lower()}" in parser.ids, f"{name} is missing")


def page_is_escaped(tap, document, source_root):
    """Every text that is prose or data is made hostile; none of it may become markup."""
    poison = "<script>alert(1)</script><img src=x onerror='y'>\"'&"
    texts = ("description", "summary", "title", "const", "pattern", "url", "version", "example")

    def poisoned(node, key=None):
        if isinstance(node, dict):
            return {k: poisoned(v, k) for k, v in node.items()}
        if isinstance(node, list):
            return [poisoned(v, key) for v in node]
        is_text = isinstance(node, str) and key in texts + ("enum", "error", "path")
        return node + poison if is_text else node

    root = poisoned(document.root)
    root["components"]["schemas"]["Info"]["properties"][poison] = {"type": "string"}
    root["paths"]["/" + poison] = root["paths"].pop("/health")
    page = make_page(source_root, root)
    parser = PageParser(tap)
    parser.feed(page)
    tap.equal(parser.open, [], "elements left open")
    tap.check(page.count("&lt;script&gt;") > 50, "the hostile texts did not get through")


def main():
    source_root, list_routes, version = sys.argv[1:]
    document = Document(os.path.join(source_root, "proto/openapi.json"))
    tap = Tap()
    tap.case("routes and contract agree", routes_agree, document, list_routes)
    tap.case("codes and base/err.c agree", codes_agree, document, source_root)
    tap.case("versions agree", versions_agree, document, version)
    tap.case("every reference resolves", references_resolve, document)
    tap.case("every component is used", components_are_used, document)
    tap.case("every operation is whole", operations_are_whole, document)
    tap.case("every schema is valid and described", schemas_are_valid, document)
    tap.case("every example fits its schema", examples_fit, document)
    tap.case("the page is whole", page_is_whole, document, source_root)
    tap.case("the page escapes everything", page_is_escaped, document, source_root)
    tap.done()


main()
