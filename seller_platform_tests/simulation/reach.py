"""What runs can reach, as the code says, and what they do not reach with the reason.

That is every failpoint of the product, every verdict on a reading, every rule that holds days, every fault of answers,
and every class of errors that a module which runs import raises.
"""

import ast
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

import seller_platform
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import SellerPlatformError
from seller_platform.warehouse.loads.holds import RULES
from seller_platform_tests.simulation.faults import ALL_KINDS
from seller_platform_tests.simulation.tables import Receipt
from seller_platform_tests.structure.errors import error_classes, error_modules

_NOT_REACHED: Mapping[str, Sequence[str]] = {
    "nothing is exported": ("failpoint export.committed", "failpoint export.created", "failpoint export.read"),
    "no account changes its number, its seller or its zone": ("rule account",),
    "lists without days have a few rows": ("rule list",),
    "walks end within a day, and send what the service has sent": ("error ApiError", "error InvalidParametersError"),
    "walks read an account that was discovered, without a token": ("error NotFoundError", "error UnauthorizedError"),
    "no disk is full": ("error DatabaseFullError", "error GrantSpoolError", "error WarehouseError"),
    "all settings are right": ("error InvalidSettingError", "error SettingsError"),
    "PostgreSQL's user has all rights": ("error MissingRightError",),
    "the connection has a grant from the start": ("error NotConnectedError",),
    "actors name the first account, which stays": ("error UnknownAccountError",),
    "all accounts have a zone": ("error UnusableAccountError",),
    "the upstream writes no name twice": ("error RepeatedNameError",),
    "no list is computed by the upstream": ("error NotOfferedError", "error UpstreamError"),
}
NOT_REACHED = frozenset(chain.from_iterable(_NOT_REACHED.values()))
"""What runs do not reach, for these reasons. Ordinary tests do."""


@cache
def reachable() -> frozenset[str]:
    """Return all that can be reached, with its kind before its name.

    Modules count that are imported now: before runs, these are the ones that they begin with.
    """
    package = Path(seller_platform.__file__).parent
    failpoints = {
        f"failpoint {ast.literal_eval(call.args[0])}"
        for path in package.rglob("*.py")
        for call in _calls(path.read_text())
        if isinstance(call.func, ast.Name) and call.func.id == "reach" and isinstance(call.args[0], ast.Constant)
    }
    classes = error_classes()
    raised = {
        f"error {call.func.id}"
        for name, module in list(sys.modules.items())
        if name.startswith(f"{package.name}.") and module not in error_modules()
        for call in _calls(Path(str(module.__file__)).read_text())
        if isinstance(call.func, ast.Name) and call.func.id in classes
    }
    rules = {f"rule {rule.name}" for rule in RULES}
    faults = {f"fault {kind}" for kind in (*ALL_KINDS, "garble")}
    return frozenset(failpoints | raised | rules | faults | {f"verdict {verdict}" for verdict in CountVerdict})


def named_in(receipts: Mapping[int, Receipt]) -> Iterator[str]:
    """Yield the verdicts and the rules that receipts name."""
    for receipt in receipts.values():
        yield f"verdict {receipt['verdict']}"
        notes = receipt["notes"] or {}
        yield from (f"rule {notes[note]['rule']}" for note in ("held", "accepted") if note in notes)


def count_errors(reach: Callable[[str], None]) -> None:
    """Call a function with the class of each error that the product makes from now on in this process."""
    plain = SellerPlatformError.__init__

    def counted(self: SellerPlatformError, *words: str, **options: object) -> None:
        reach(f"error {type(self).__name__}")
        plain(self, *words, **options)  # type: ignore[arg-type]

    SellerPlatformError.__init__ = counted  # type: ignore[method-assign]


def problems_of(expected: Collection[str], reached: Collection[str]) -> list[str]:
    """Return a line for each thing that no run reached without a reason, or that one reached despite a reason."""
    never = sorted(set(expected).difference(reached, NOT_REACHED))
    despite = sorted(NOT_REACHED.intersection(reached))
    return [f"never reached: {name}" for name in never] + [f"reached despite its reason: {name}" for name in despite]


def _calls(text: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
