"""What a cell of a table stands for: lists and objects as pandas, numpy and `datasets` print them, or as JSON."""

import ast
import io
import json
import re
import tokenize

_NESTED = ("answers", "detected_answers", "accepted")
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "": None}
_NO_COMMA = re.compile(r"['\"\])}\d]\s+['\"\[{(\da]")  # as numpy prints: ['a' 'b']
_SPACE = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def typed(cells: dict[str, str]) -> dict[str, object]:
    """The cells of one row with their lists, objects, and true or false; what cannot be read stays text."""
    row: dict[str, object] = dict(cells)
    for name in _NESTED:
        if name in row:
            row[name] = literal(cells[name])
    if "is_impossible" in row:
        row["is_impossible"] = _FLAGS.get(cells["is_impossible"].lower(), cells["is_impossible"])
    for name in ("answer", "answer_text", "answer_start"):
        if row.get(name, "").startswith("["):
            value = literal(cells[name])
            row[name] = value if isinstance(value, list) else cells[name]
    return row


def literal(text: str) -> object:
    """The value that ``text`` prints, as JSON or Python, numpy's arrays as lists; ``text`` itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        if _NO_COMMA.search(text):  # Python would join neighbouring texts to one
            text_of_value = _with_commas(text)
        else:
            text_of_value = text
        return ast.literal_eval(_Lists().visit(ast.parse(text_of_value.strip(), mode="eval")))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, tokenize.TokenError):
        return text


class _Lists(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``array([...], dtype=...)`` is its list."""
        if isinstance(node.func, ast.Name) and node.func.id == "array" and len(node.args) == 1:
            return self.visit(node.args[0])
        return node


def _with_commas(text: str) -> str:
    made, ended = [], False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _SPACE:
            continue
        value = token.type in (tokenize.STRING, tokenize.NUMBER)
        if ended and (value or token.string in ("[", "{", "array")):
            made.append(",")
        made.append(token.string)
        ended = value or token.string in ("]", "}", ")")
    return " ".join(made)
