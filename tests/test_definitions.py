"""What a page's cells define, read without running the page."""

import pytest

from course_lib.exercises.page.definitions import definitions


def test_only_what_is_needed_is_run() -> None:
    page = [
        "from math import exp as e\n%matplotlib inline\nraise RuntimeError",
        "def f(x, y: Kind = LIMIT):\n    return g(x)",
        "for LIMIT in (1, 2):\n    pass",
        "LIMIT += 1; Kind = int; other = 1 / 0",
        "def g(x):\n    return e(x) + f.__defaults__[0]",
        "def f(x, y: Kind = LIMIT):\n    return g(x)",
        "no python",
        "h = [missing]",
        "def k():\n    rows = [x for x in h]\n    return rows",
        "for x in (1, 2):\n    rows = 1 / 0",
        "def m():\n    break",
    ]
    space, errors = definitions(page, ["f", "k", "m"])
    assert space["f"](0) == 1 + 3
    assert not {"other", "rows", "x"} & {*space, *errors}  # k's rows and x are its own
    assert errors == {
        "h": "NameError: name 'missing' is not defined (cell 8)",
        "m": "SyntaxError: 'break' outside loop (<code cell 11>, line 2) (cell 11)",
    }
    assert "k" in space


SIZES = "def f(x):\n    return x + TABLE[-1] + CONFIG['b']"
CONSTANTS = "TABLE = [0]\nCONFIG = {'b': 0}"


@pytest.mark.parametrize(
    ("page", "right"),
    [
        # constants that later statements build
        (["TABLE = []\nTABLE.append(1)\nCONFIG = {}\nCONFIG['b'] = 2", SIZES], 3),
        ([CONSTANTS, "for i in range(3):\n    TABLE.append(i)", "CONFIG['b'] += 4", SIZES], 6),
        (
            [
                CONSTANTS,
                "i = 0\nwhile i < 2:\n    i += 1\n    TABLE.append(i)\nwith open('/dev/null'):\n    CONFIG.update(b=1)",
                SIZES,
            ],
            3,
        ),
        ([CONSTANTS, "if True:\n    TABLE += [5]\ntry:\n    CONFIG |= {'b': 1}\nfinally:\n    pass", SIZES], 6),
        (
            [
                CONSTANTS,
                "TABLE.append(7); del TABLE[-1]; CONFIG.setdefault('c', []).append(CONFIG.pop('b')); CONFIG['b'] = CONFIG['c'][0] + 2",
                SIZES,
            ],
            2,
        ),
        (["class C: pass\nc = C()\nc.x = 2\nc.y, c.z = 3, 4", "def f(x):\n    return c.x + c.y"], 5),
        ([CONSTANTS, "def fill(t):\n    for i in range(3):\n        t.append(i)\nfill(TABLE)", SIZES], 2),
        ([CONSTANTS, "def outer(t):\n    inner(t)\ndef inner(t):\n    t += [4]\n    t[0] = 1\nouter(TABLE)", SIZES], 4),
        ([CONSTANTS, "def both():\n    CONFIG['b'] = 9\nboth()", SIZES], 9),
        (["def once():\n    global N\n    N = 4\nonce()", "def f(x):\n    return N"], 4),
        (
            [
                "ROWS = [[0], [0]]\nrow = ROWS[1]\nrow.append(3)\nfor one in ROWS:\n    one.append(5)",
                "def f(x):\n    return ROWS[1][1] + ROWS[0][1]",
            ],
            8,
        ),
        ([CONSTANTS, "import random\nTABLE[:] = [3, 3]\nrandom.shuffle(TABLE)\nsetattr(CONFIG, 'x', 0)", SIZES], 3),
        (
            [
                "import torch\nW = torch.ones(2)\nW.mul_(3)\ntorch.nn.init.constant_(W, 4)",
                "def f(x):\n    return int(W[0])",
            ],
            4,
        ),
        (
            [
                "REGISTER = []\ndef add(g):\n    REGISTER.append(g)\n    return g",
                "@add\ndef g(): return 6",
                "def f(x):\n    return REGISTER[-1]()",
            ],
            6,
        ),
        # forms of a definition
        (["%%time\ndef f(x):\n    return 2"], 2),
        (["%%capture out\n%%time\nA = 1\ndef f(x):\n    return A"], 1),
        (["get_ipython().run_cell_magic('time', '', 'def f(x):\\n    return 2\\n')"], 2),
        (["%time A = 3\n!pip --version\nlen?\n%matplotlib inline", "def f(x):\n    return A"], 3),
        (["if __name__ == '__main__':\n    def f(x):\n        return 2"], 2),
        (
            [
                "try:\n    import no_such_module as m\nexcept ImportError:\n    m = None",
                "def f(x):\n    return 2 if m is None else 3",
            ],
            2,
        ),
        (["import functools\ndef g(a, x):\n    return a + x", "f = functools.partial(g, 3)"], 3),
        (["B = (C := 4) + 1", "f = lambda x: x + B + C"], 9),
        (["from math import *", "def f(x):\n    return floor(pi)"], 3),
        (["import asyncio", "async def made():\n    return 5\nA = await made()", "def f(x):\n    return A"], 5),
        (["from __future__ import annotations", "def f(x: Missing) -> Unknown:\n    return 1"], 1),
        (
            [
                "import functools\n@functools.lru_cache\ndef f(x):\n    return helper(x)",
                "def helper(x):\n    return x + 1",
            ],
            1,
        ),
        # what the check saw
        (["def f(x):\n    return 1\ncheck(f)\ndef f(x):\n    return 2"], 1),
        (["def f(x):\n    return N\nN = 1\nr = check(f)", "N = 2\nM = 3"], 1),
        (["T = [1]\ndef f(x):\n    return T[-1]\nprint(check(f))", "T.append(5)"], 1),
        (["def f(x):\n    return 1\ncheck(f)", "def f(x):\n    return 2\ncheck(f)"], 2),
        (["def f(x):\n    return later(x)\ncheck(f)", "def later(x):\n    return 7"], 7),
    ],
)
def test_a_function_is_what_it_was_on_its_page(page, right) -> None:
    space, errors = definitions(page, ["f"])
    assert not errors
    assert space["f"](0) == right


def test_the_function_that_is_checked_may_be_an_earlier_one() -> None:
    one, other = "def f(x):\n    return 1  # one\n", "def f(x):\n    return 2\n"
    page = [f"{one}check(f)\n{other}check(f)"]
    assert definitions(page, ["f"], one).space["f"](0) == 1
    assert definitions(page, ["f"], other).space["f"](0) == 2
    assert definitions(page, ["f"]).space["f"](0) == 2


def test_what_only_uses_a_name_is_not_run() -> None:
    page = [
        "import math\nTABLE = [1, 2]\nRAN = []\ndef plot(t):\n    RAN.append(sorted(t))\n    raise RuntimeError",
        "def f(x):\n    return TABLE[0]",
        "plot(TABLE); print(TABLE); ax.plot(TABLE)",
        "for y in TABLE:\n    print(y, 1 / 0)",
        "total = sum(TABLE) + missing\nfigure = plt.figure(); plt.show(f)",
        "f(3); check(f); math.floor(TABLE[0]); copy = TABLE.copy().append(1 / 0)",
    ]
    space, errors = definitions(page, ["f"])
    assert not errors
    assert {name for name in space if not name.startswith("__")} <= {"f", "TABLE"}
