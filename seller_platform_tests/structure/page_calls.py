"""Counts the functions of the product that read one page of orders.

`python -m seller_platform_tests.structure.page_calls` prints them. They read a slice of one page from an upstream on
a socket, which answers every request with the same rows. Each function, generator expression and comprehension counts
once, in whichever thread it is entered; the number of entries is printed beside it.
"""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import seller_platform
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract import dataset_named
from seller_platform_tests.support.http_upstream import BERLIN, MARCH, KeptRows, MovingList, day_of_order, orders
from seller_platform_tests.support.raw_server import Answer, serving

_PRODUCT = f"{Path(seller_platform.__file__).parent}/"
_ROWS = 7


@dataclass
class Calls:
    """The calls of functions of the product.

    Attributes:
        entries: How often each function was entered.
        deepest: The functions of the deepest stack, the innermost first.
    """

    entries: Counter[CodeType]
    deepest: list[CodeType]

    @property
    def modules(self) -> Counter[str]:
        """How many functions of each module were entered."""
        return Counter(code.co_filename.removeprefix(_PRODUCT) for code in self.entries)

    @property
    def numbers(self) -> dict[str, int]:
        """The three numbers that have a budget."""
        return {"functions": len(self.entries), "modules": len(self.modules), "deep": len(self.deepest)}


def counted_in_a_new_process() -> dict[str, int]:
    """Return the three numbers, counted where every cache is empty."""
    command = [sys.executable, "-m", "seller_platform_tests.structure.page_calls", "--numbers"]
    numbers: dict[str, int] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return numbers


def calls_of_a_page() -> Calls:
    """Read the page and return the calls, which are fewer after the first page."""
    calls = Calls(Counter(), [])
    lock = threading.Lock()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PRODUCT):
            above = [each.f_code for each in _stack(frame) if each.f_code.co_filename.startswith(_PRODUCT)]
            with lock:
                calls.entries[frame.f_code] += 1
                if len(above) > len(calls.deepest):
                    calls.deepest = above

    with _upstream() as url:
        with SellerApi(f"{url}/api") as api:
            threading.setprofile(note)
            sys.setprofile(note)
            read_slice(api, dataset_named("orders"), BERLIN, MARCH, None, KeptRows())
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@contextmanager
def _upstream() -> Iterator[str]:
    listed = MovingList(orders(_ROWS), day_of=day_of_order)
    with serving(lambda request: Answer.of(listed.page(request.query))) as server:
        yield server.url


def main() -> None:
    """Print the numbers as JSON, and without --numbers the functions."""
    calls = calls_of_a_page()
    print(json.dumps(calls.numbers))
    if "--numbers" in sys.argv:
        return
    for code, entries in sorted(calls.entries.items(), key=lambda item: (item[0].co_filename, -item[1])):
        print(f"{entries:4} {code.co_filename.removeprefix(_PRODUCT)}:{code.co_firstlineno} {code.co_qualname}")
    print("the deepest stack:")
    for code in reversed(calls.deepest):
        print(f"     {code.co_filename.removeprefix(_PRODUCT)}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
