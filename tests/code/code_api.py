"""What the tests of contexts ask for."""

import base64
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "sandbox"))

# pylint: disable=wrong-import-position
from ground import Events, check, equal  # noqa: E402

LANGUAGES = ("python", "javascript", "typescript", "bash")


def body_of(code, options):
    if "context" not in options and "language" not in options:
        options = {**options, "language": "python"}
    return {"code": code, **options}


def run(g, code, status=200, sandbox="a", **options):
    """The whole answer."""
    reply = g.request("POST", f"/v1/sandbox/{sandbox}/code", body_of(code, options), Accept="application/json")
    equal(reply.status, status, f"{code[:200]!r}: {reply}")
    answer = reply.json()
    if status == 200 and answer["encoding"] == "base64":
        answer["stdout"], answer["stderr"] = base64.b64decode(answer["stdout"]), base64.b64decode(answer["stderr"])
    return answer


def value(g, code, **options):
    """The text of its last expression; it must not fail."""
    answer = run(g, code, **options)
    equal((answer["reason"], answer["error"]), ("completed", None), f"{code[:200]!r}: {answer}")
    values = [r for r in answer["results"] if r.get("is_value")]
    return values[0]["text"] if values else None


def out(g, code, **options):
    answer = run(g, code, **options)
    equal((answer["reason"], answer["error"]), ("completed", None), f"{code[:200]!r}: {answer}")
    return answer["stdout"]


def make(g, status=200, sandbox="a", **body):
    reply = g.request("POST", f"/v1/sandbox/{sandbox}/context", body)
    equal(reply.status, status, f"context: {reply}")
    return reply.json()


def contexts(g, sandbox="a"):
    return {c["id"]: c for c in g.get(f"/v1/sandbox/{sandbox}/context").json()["contexts"]}


def delete(g, context, sandbox="a"):
    equal(g.request("DELETE", f"/v1/sandbox/{sandbox}/context/{context}").status, 204, f"delete {context}")


class Stream(Events):
    """Events of code, which can be read one by one."""

    def __init__(self, connection, response):
        super().__init__(connection, response)
        self.rest = super().__iter__()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.rest)


def begin(g, code, sandbox="a", **options):
    """As events, which have begun when this returns."""
    connection = g.connect()
    connection.request("POST", f"/v1/sandbox/{sandbox}/code", json.dumps(body_of(code, options)),
                       {"Accept": "text/event-stream"})
    response = connection.getresponse()
    equal(response.status, 200, f"events: {response.read() if response.status != 200 else ''}")
    return Stream(connection, response)


def each_language(function):
    """In a context of each."""
    def test(g):
        for language in LANGUAGES:
            make(g, id=language, language=language)
            try:
                function(g, language)
            except BaseException:
                print(f"# with {language}")
                raise
            delete(g, language)
    test.__name__, test.__doc__ = function.__name__, function.__doc__
    return test


def check_kept(g, context, code, expected):
    """Its interpreter is the same as before."""
    answer = run(g, code, context=context)
    check(not answer["fresh"] and answer["results"] and answer["results"][-1]["text"] == expected, answer)
