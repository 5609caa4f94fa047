"""SQL text to a syntax tree, and the small questions asked of the tree. Nothing here knows jobs.

The text is parsed by sqlglot's Spark dialect. What sqlglot cannot read is refused, even where Spark could: a query
that Penstock cannot see through could read any file and keep any state. Such a query can be a Python one.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import ClassVar

from sqlglot import Dialect, Token, TokenType, exp
from sqlglot.errors import SqlglotError

from penstock.config.problems import Problem
from penstock.config.sql_errors import Frame, in_words

SQL_FIELD = "query.sql"
SPARK = Dialect.get_or_raise("spark")
MOST_TOKENS = 10_000
"""A text of so many tokens takes the parser about a third of a second."""
_STEPS = 30_000
_STEPS_A_TOKEN = 10
"""Most texts are read in 1 to 5 steps a token."""

_TOO_COMPLEX = (
    " has too many possible readings: write ON or USING after each JOIN (or CROSS JOIN), and nest fewer calls of "
    "functions named as types, such as struct(...)"
)
_NO_SELECT = " must be a SELECT"
_HINT = re.compile(r"/\*\+")
_QUOTE = re.compile("['\"`]")
# They run any method of the JVM; a job that needs other code names a package.
FOREIGN_CODE = frozenset({"reflect", "java_method", "try_reflect"})
# Their arguments can name a file or an address. Spark calls some of them while it still reads the text.
FOREIGN_FILES = frozenset(
    {"from_xml", "schema_of_xml", "from_protobuf", "to_protobuf", "from_avro", "to_avro", "schema_of_avro"}
    # XML names files and addresses in its DOCTYPE, and XPath has a function for settings of the JVM.
    | {
        "xpath",
        "xpath_boolean",
        "xpath_double",
        "xpath_float",
        "xpath_int",
        "xpath_long",
        "xpath_number",
        "xpath_short",
    }
    | {"xpath_string"}
)


class _TooManySteps(Exception):
    """The parser tries too many readings of a text."""


@dataclass
class Steps:
    """What the parser may still do for several texts together."""

    left: int


class _PlainTokenizer(SPARK.tokenizer_class):  # type: ignore[misc, name-defined]
    """sqlglot's tokenizer without commands of a session: after `BEGIN` it would take all text that follows one, such as
    FETCH, for one string. Spark knows no such words in a query."""

    COMMANDS: ClassVar[set[TokenType]] = set()


class _BoundedParser(SPARK.parser_class):  # type: ignore[misc, name-defined]
    """sqlglot's parser with a limit to its steps.

    It reads what follows a JOIN without ON twice, also what follows `struct(`: the time would double with each one.
    """

    steps_left = 0
    shared: Steps | None = None

    def _advance(self, times: int = 1) -> None:
        self.steps_left -= 1
        if self.shared is not None:
            self.shared.left -= 1
        if self.steps_left < 0 or (self.shared is not None and self.shared.left < 0):
            raise _TooManySteps
        super()._advance(times)

    def read(self, tokens: list[Token], sql: str) -> list[exp.Expr]:
        """The statements of a text. Raises _TooManySteps."""
        self.steps_left = _STEPS + _STEPS_A_TOKEN * len(tokens)
        return [found for found in self.parse(tokens, sql) if found is not None]


def sql_problem(rule: str, text: str) -> Problem:
    """A problem with the query; `text` goes on after the field's name."""
    return Problem(SQL_FIELD, rule, SQL_FIELD + text)


def parse_query(sql: str | Frame, steps: Steps | None = None) -> exp.Query | Problem:
    """The syntax tree of a text that is one SELECT (with CTEs and set operations); otherwise the problem, whose place
    is that in what somebody wrote. `steps`: what is left for this text and others, beside a limit of its own.

    Raises RecursionError when the text nests too deeply, as the walks over the tree may too.
    """
    frame = sql if isinstance(sql, Frame) else Frame("", sql)
    text = frame.whole
    if "${" in text:
        # Spark would put session settings and environment variables here, even inside a string.
        return sql_problem("sql_variable", " may not have ${...}: write :name for an argument")
    try:
        tokens = _tokens(text)
        if tokens and tokens[0].token_type in SPARK.tokenizer_class.COMMANDS:
            return sql_problem("one_select", _NO_SELECT)
        if len(tokens) > MOST_TOKENS:
            return sql_problem("sql_too_long", f" may have at most {MOST_TOKENS} words and signs, not {len(tokens)}")
        if any(_is_read_otherwise(comment) for token in tokens for comment in token.comments):
            return sql_problem("sql_comment", ": a comment may have no /* in it, and no backslash at its end")
        if _has_other_hints(text, tokens):
            return sql_problem("sql_comment", ": a hint /*+ ... */ must follow SELECT, one each, and have no quotes")
        parser = _BoundedParser(dialect=SPARK)
        parser.shared = steps
        statements = parser.read(tokens, text)
    except _TooManySteps:
        return sql_problem("sql_too_complex", _TOO_COMPLEX)
    except SqlglotError as error:
        return sql_problem("sql_syntax", f": {in_words(error, frame)}")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return sql_problem("sql_syntax", ": it cannot be read: a call of a function may have too few arguments")
    if len(statements) != 1:
        return sql_problem("one_select", f" must be one statement, not {len(statements)}")
    statement = statements[0]
    if not isinstance(statement, exp.Query) or not statement.find(exp.Select):
        return sql_problem("one_select", _NO_SELECT)
    return _foreign_code(statement) or statement


@lru_cache(maxsize=1024)
def brings_rows_together(sql: str) -> bool:
    """Whether a query may group or join rows; also when its text cannot be read."""
    try:
        query = parse_query(sql)
        return isinstance(query, Problem) or query.find(exp.Group, exp.Join, exp.Exists, exp.Subquery) is not None
    except RecursionError:
        return True


def _tokens(sql: str) -> list[Token]:
    """The tokens of a text, where `window` is a keyword only in the clause `WINDOW name AS`.

    sqlglot takes it for that clause also in `GROUP BY window(time, '10 minutes')`, the commonest streaming query.
    """
    tokens: list[Token] = _PlainTokenizer(dialect=SPARK).tokenize(sql)
    for token, second_next in zip_longest(tokens, tokens[2:]):
        starts_clause = second_next is not None and second_next.token_type is TokenType.ALIAS
        if token.token_type is TokenType.WINDOW and not starts_clause:
            token.token_type = TokenType.VAR
    return tokens


def _is_read_otherwise(comment: str) -> bool:
    """Whether Spark ends a comment elsewhere than sqlglot, so that other text would run than was checked: for Spark a
    line goes on after a backslash, and `/*+` within a comment begins none."""
    return "/*" in comment or comment.rstrip("\r\n").endswith("\\")


def _has_other_hints(sql: str, tokens: Sequence[Token]) -> bool:
    """Whether Spark reads a hint, and in it a text with the end of a comment, where sqlglot reads a comment."""
    if any(token.token_type is TokenType.HINT and _QUOTE.search(token.text) for token in tokens):
        return True
    starts = [token.start for token in tokens]

    def is_comment(at: int) -> bool:
        token = tokens[max(bisect_right(starts, at) - 1, 0)]
        within = token.start < at < token.end
        return not within and not (token.start == at and token.token_type is TokenType.HINT)

    return any(is_comment(begin.start()) for begin in _HINT.finditer(sql))


def _foreign_code(statement: exp.Query) -> Problem | None:
    names = {name for call in statement.find_all(exp.Func) for name in function_names(call)}
    code = names & FOREIGN_CODE
    if statement.find(exp.QueryTransform):
        code = code | {"transform ... using"}
    if code:
        return sql_problem("foreign_code", f" may not run code of its own: {', '.join(sorted(code))}")
    if names & FOREIGN_FILES:
        found = ", ".join(sorted(names & FOREIGN_FILES))
        return sql_problem("foreign_files", f" may not read files that the job does not name: {found}")
    return None


def function_names(call: exp.Func) -> set[str]:
    """The names, in lower case, by which a function may have been called."""
    names = [call.name] if isinstance(call, exp.Anonymous) else call.sql_names()
    return {name.lower() for name in names}


def argument_names(query: exp.Query) -> frozenset[str]:
    """The arguments that a query needs: its `:name` markers (`?` for one without a name, which no job has)."""
    return frozenset(marker.name or "?" for marker in query.find_all(exp.Placeholder))
