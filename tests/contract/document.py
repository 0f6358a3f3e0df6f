"""The contract as the tests see it: operations, references, validation."""

import json

import jsonschema

METHODS = ["get", "head", "post", "put", "delete", "patch", "options"]


class Document:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.root = json.loads(self.bytes, object_pairs_hook=no_duplicates)
        self.resolver = jsonschema.RefResolver.from_schema(self.root)

    def operations(self):
        for path, item in self.root["paths"].items():
            for method in METHODS:
                if method in item:
                    yield method.upper(), path, item[method]

    def resolve(self, value):
        while "$ref" in value:
            value = self.resolver.resolve(value["$ref"])[1]
        return value

    def is_open(self, operation):
        return not operation.get("security", self.root["security"])

    def errors_of(self, value, schema):
        """Sentences about what does not fit; empty if all is well."""
        validator = jsonschema.Draft202012Validator(
            schema, resolver=self.resolver, format_checker=jsonschema.FormatChecker()
        )
        return [f"{e.json_path}: {e.message}" for e in validator.iter_errors(value)]

    def examples(self):
        """Every example that has a schema beside it: where it is, its value, the schema."""
        for where, node in walk(self.root, "#"):
            if not isinstance(node, dict) or "schema" not in node:
                continue
            if "example" in node:
                yield where, node["example"], node["schema"]
            for name, example in node.get("examples", {}).items():
                yield f"{where}/examples/{name}", self.resolve(example)["value"], node["schema"]


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key is there twice: {keys}")
    return dict(pairs)


def walk(node, where):
    yield where, node
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        yield from walk(child, f"{where}/{key}")
