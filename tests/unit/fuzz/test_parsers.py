"""Whatever others write, a parser of ours takes it within bounds or refuses it in one line, and soon.

The parsers are listed in `parsers.py`; a module that starts to parse and is not listed there fails the last test here.
`ALNAIR_EXAMPLES=5000 pytest tests/unit/fuzz` for a longer look.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import alnair
from unit.fuzz.mutation import DEEP, NUMBERS, TEXTS, VALUES, json_bytes, texts, trees
from unit.fuzz.parsers import BYTES, TEXT, TREE, Parser, one_line, parsers
from unit.fuzz.parsers import TEXTS as ANNOTATIONS

EXAMPLES = int(os.environ.get("ALNAIR_EXAMPLES", "60"))
NAMES = [each.name for each in parsers(Path())]
FILES = ("config", "imported policies")  # the administrator's: complaints quote their lines
CPU_SECONDS = 5.0  # of one input, on a thread of its own account: how busy the machine is does not count


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def feed(parser: Parser, what: Any) -> None:
    """It is accepted within bounds, or refused in the parser's own way."""
    began = time.thread_time()
    try:
        accepted = parser.feed(what)
    except parser.declared as refused:
        if parser.says:
            complains(parser, str(refused))
    else:
        parser.holds(accepted)
    assert time.thread_time() - began < CPU_SECONDS


def complains(parser: Parser, said: str) -> None:
    """In one line that names what it is about."""
    if parser.name not in FILES:
        one_line(said)
    assert parser.says in said


def inputs(parser: Parser) -> st.SearchStrategy[Any]:
    if parser.kind == BYTES:
        return json_bytes(parser.examples)
    if parser.kind == TREE:
        return trees(parser.examples)
    if parser.kind == ANNOTATIONS:
        return trees(parser.examples).map(
            lambda tree: (
                {key: value for key, value in tree.items() if isinstance(value, str)}
                if isinstance(tree, dict)
                else {}
            )
        )
    if parser.kind == TEXT:
        return texts(parser.examples)
    shown = [each.decode("latin-1") for each in parser.examples]
    return texts(shown).map(lambda text: text.encode("latin-1", errors="replace"))


@pytest.mark.parametrize("name", NAMES)
def test_what_is_almost_right_is_taken_or_refused(name: str, tmp_path: Path) -> None:
    parser = next(each for each in parsers(tmp_path) if each.name == name)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize="ALNAIR_EXAMPLES" not in os.environ,
        database=None,
    )
    @given(inputs(parser))
    def all_of_it(what: Any) -> None:
        feed(parser, what)

    all_of_it()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_right_is_taken(name: str, tmp_path: Path) -> None:
    """Else everything above would be refused at once, and show nothing."""
    parser = next(each for each in parsers(tmp_path) if each.name == name)
    for example in parser.examples:
        text = json.dumps(example).encode() if parser.kind == BYTES else example
        try:
            parser.holds(parser.feed(text))
        except parser.declared as error:
            pytest.fail(f"{error}")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_from_hell_costs_little(name: str, tmp_path: Path) -> None:
    """The whole of each, and each in the place of every field of the first example."""
    parser = next(each for each in parsers(tmp_path) if each.name == name)
    for text in (*NUMBERS, *TEXTS):
        if parser.kind == TEXT:
            feed(parser, text)
        elif parser.kind == ANNOTATIONS or parser.kind == TREE:
            feed(parser, dict.fromkeys(parser.examples[0], text))
        else:
            feed(parser, text.encode(errors="surrogatepass"))
    if parser.kind == TREE:
        for value in VALUES:
            feed(parser, value if parser.name != "records" else {"metadata": value})
    if parser.kind == BYTES:
        for opening, closing in (("[", "]"), ('{"a":', "}")):
            feed(parser, (opening * DEEP + "1" + closing * DEEP).encode())


# -- nobody is forgotten -----------------------------------------------------------------------------------------

ROOT = Path(alnair.__file__).parent
# Calls that turn what somebody wrote into something of ours.
PARSING = re.compile(
    r"orjson\.loads|json\.loads|msgspec\.json\.decode|msgspec\.json\.Decoder|literal_eval|model_validate|yaml\.load"
    r"|csv\.|fromisoformat|strptime|urlsplit|b64decode"
)
# Not from outside, or by the administrator's hand on a command line only.
OURS = {
    "scheduling/profile.py": "options that the config's parser has read",
    "scheduling/catalogue.py": "writes only",
    "cli/cluster.py": "our own child's line",
    "cli/profile.py": "our own writing",
    "extender/advice.py": "an address on the command line",
}


def test_every_module_that_parses_is_listed() -> None:
    listed = {module for each in parsers(Path()) for module in each.modules}
    parsing = set()
    for path in ROOT.rglob("*.py"):
        module = path.relative_to(ROOT).as_posix()
        if module.startswith("sandbox/"):
            continue  # tests and the demo
        calls = [
            ast.unparse(each.func)
            for each in ast.walk(ast.parse(path.read_text()))
            if isinstance(each, ast.Call)
        ]
        if any(PARSING.search(each) for each in calls):
            parsing.add(module)
    assert parsing - listed - OURS.keys() == set()
    assert {each for each in listed if not (ROOT / each).is_file()} == set()
