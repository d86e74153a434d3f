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
from pathlib import Path
from types import CodeType, FrameType

import seller_platform
from seller_platform.client.http.api import SellerApi
from seller_platform.client.lists.slice_reader import read_slice
from seller_platform.contract.datasets.sales import ORDERS
from seller_platform_tests.support.http_upstream import BERLIN, MARCH, KeptRows, MovingList, day_of_order, orders
from seller_platform_tests.support.raw_server import Answer, serving

_PRODUCT = f"{Path(seller_platform.__file__).parent}/"


def counted_in_a_new_process() -> dict[str, int]:
    """Return the three numbers that have a budget, counted where every cache is empty."""
    command = [sys.executable, "-m", "seller_platform_tests.structure.page_calls"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(printed.splitlines()[-1]))


def main() -> None:
    """Read the page, and print the functions, the deepest stack from its beginning, and the numbers as JSON."""
    entries, deepest, lock = Counter[CodeType](), list[CodeType](), threading.Lock()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_PRODUCT):
            above = [code for code in _stack(frame) if code.co_filename.startswith(_PRODUCT)]
            with lock:
                entries[frame.f_code] += 1
                if len(above) > len(deepest):
                    deepest[:] = above

    listed = MovingList(orders(7), day_of=day_of_order)
    with (
        serving(lambda request: Answer.of(listed.page(request.query))) as server,
        SellerApi(f"{server.url}/api") as api,
    ):
        threading.setprofile(note)
        sys.setprofile(note)
        read_slice(api, ORDERS, BERLIN, MARCH, None, KeptRows())
        sys.setprofile(None)
        threading.setprofile(None)
    for code in (*sorted(entries, key=lambda code: (code.co_filename, -entries[code])), *reversed(deepest)):
        name = code.co_filename.removeprefix(_PRODUCT)
        print(f"{entries[code]:4} {name}:{code.co_firstlineno} {code.co_qualname}")
    files = {code.co_filename for code in entries}
    print(json.dumps({"functions": len(entries), "modules": len(files), "deep": len(deepest)}))


def _stack(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


if __name__ == "__main__":
    main()
