"""Client is AsyncClient without the waiting: the source of the one, taken out of the other, is compared method by method."""

import ast
from pathlib import Path

import pytest

import fastq

FOLDER = Path(fastq.__file__).parent / "enqueue"
WAITING = {
    "run_async": "run",
    "copy_async": "copy",
    "suited_async": "suited",
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
}
ON_THEIR_OWN = {"_here", "close"}  # sessions belong to a process, or to its event loop
NAMES = {"_AsyncSessions": "_Sessions", "AsyncConn": "Conn", "tuple[int, asyncio.AbstractEventLoop]": "int"}


class WithoutWaiting(ast.NodeTransformer):
    """Take out what makes a program asynchronous."""

    def visit_AsyncFunctionDef(self, node):
        self.generic_visit(node)
        fields = {name: getattr(node, name) for name in ("args", "body", "decorator_list", "returns")}
        return ast.FunctionDef(name=WAITING.get(node.name, node.name), **fields)

    def visit_AsyncWith(self, node):
        self.generic_visit(node)
        return ast.With(items=node.items, body=node.body)

    def visit_Await(self, node):
        return self.visit(node.value)

    def visit_Attribute(self, node):
        self.generic_visit(node)
        node.attr = WAITING.get(node.attr, node.attr)
        return node

    def visit_Constant(self, node):
        return ast.Constant(node.value.replace("aclose", "close")) if isinstance(node.value, str) else node


def methods(file, name):
    """Return the methods of a class without their waiting, as text, overloads in their order."""
    module = ast.parse((FOLDER / file).read_text())
    (found,) = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == name]
    made = [WithoutWaiting().visit(node) for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    texts: dict[str, list[str]] = {}
    for node in made:
        if node.name not in ON_THEIR_OWN:
            texts.setdefault(node.name, []).append(ast.unparse(ast.fix_missing_locations(node)))
    return texts


def spelt_as_blocking(text):
    for waiting, blocking in NAMES.items():
        text = text.replace(waiting, blocking)
    return text


SYNC, ASYNC = methods("client.py", "Client"), methods("client_async.py", "AsyncClient")


@pytest.mark.parametrize("name", sorted(SYNC | ASYNC))
def test_a_method_of_both_clients_does_the_same(name):
    assert SYNC.get(name) == [spelt_as_blocking(text) for text in ASYNC.get(name, [])]
