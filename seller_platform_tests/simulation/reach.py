"""What runs can reach, as the code says, and what they do not reach with the reason.

That is every failpoint of the product, every verdict on a reading, every rule that holds days, every fault of answers,
and every class of errors that a module which runs import raises.
"""

import ast
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

import seller_platform
from seller_platform import errors
from seller_platform.contract.loads import CountVerdict
from seller_platform.errors import SellerPlatformError
from seller_platform.warehouse.loads.holds import RULES
from seller_platform_tests.simulation.faults import ALL_KINDS
from seller_platform_tests.simulation.tables import Receipt

_KILLED_EXPORT = "warehouse/exports/test_partitions.py::test_a_killed_export_is_completed_by_the_next"
_PINS = "service/lists/test_walks.py::test_a_pin_is_kept_for_a_day_and_survives_as_text"
_RULES = "warehouse/loads/test_holds.py"

NOT_REACHED: Mapping[str, tuple[str, str]] = {
    "failpoint export.committed": ("nothing is exported", _KILLED_EXPORT),
    "failpoint export.created": ("nothing is exported", _KILLED_EXPORT),
    "failpoint export.read": ("nothing is exported", _KILLED_EXPORT),
    "rule account": (
        "no account changes its number, its seller or its zone",
        "ingest/loads/test_accounts.py::test_another_identity_is_held_until_a_person_accepts_it",
    ),
    "rule list": (
        "lists without days have a few rows",
        f"{_RULES}::test_an_inventory_that_lists_every_row_twice_is_held",
    ),
    "error ApiError": ("walks end within a day", _PINS),
    "error InvalidParametersError": ("walks send what the service has sent", _PINS),
    "error NotFoundError": (
        "walks read an account that was discovered",
        "service/oauth/test_third_party.py::test_their_client_understands_our_refusals",
    ),
    "error UnauthorizedError": (
        "walks have no token",
        "service/oauth/test_third_party.py::test_their_client_refreshes_and_says_why_a_token_is_refused",
    ),
    "error DatabaseFullError": (
        "no disk is full",
        "faults/test_disks.py::test_a_disk_that_fills_up_while_the_server_runs_is_named",
    ),
    "error GrantSpoolError": (
        "no disk is full",
        "ingest/connections/test_power_loss.py::test_no_pair_is_lost_while_one_call_of_the_disk_fails",
    ),
    "error WarehouseError": (
        "no disk is full",
        "faults/test_disks.py::test_a_slice_that_no_file_can_take_is_loaded_by_the_next_run",
    ),
    "error InvalidSettingError": (
        "all settings are right",
        "client/http/test_api.py::test_a_base_url_that_cannot_be_called_is_a_setting_to_fix",
    ),
    "error SettingsError": (
        "all settings are right",
        "orchestration/test_resources.py::test_a_resource_without_a_warehouse_names_the_attributes_that_it_lacks",
    ),
    "error MissingRightError": (
        "PostgreSQL's user has all rights",
        "cli/terminal/test_foreseen.py::test_a_missing_right_is_named_with_the_line_that_grants_it",
    ),
    "error NotConnectedError": (
        "the connection has a grant from the start",
        "warehouse/connections/test_grants.py::test_without_a_grant_the_next_step_is_named",
    ),
    "error UnknownAccountError": (
        "actors name the first account, which stays",
        "warehouse/connections/test_account_names.py::test_a_name_that_is_spelled_nearly_right_is_suggested",
    ),
    "error UnusableAccountError": (
        "all accounts have a zone",
        "client/lists/test_slice_reader.py::test_an_account_without_a_known_zone_is_refused",
    ),
    "error RepeatedNameError": (
        "the upstream writes no name twice",
        "client/lists/test_ends.py::test_a_name_stands_twice_whatever_else_changes",
    ),
    "error NotOfferedError": (
        "no list is computed by the upstream",
        "journeys/test_foreign_upstream.py::test_statistics_that_are_not_offered_are_named_and_stop_nothing",
    ),
    "error UpstreamError": (
        "no list is computed by the upstream",
        "ingest/loads/test_loading.py::test_a_list_that_others_are_answered_for_is_refused_for_the_account",
    ),
}
"""The reason why runs do not reach something, and an ordinary test that does."""


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
    classes = {
        name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, SellerPlatformError)
    }
    raised = {
        f"error {call.func.id}"
        for name, module in list(sys.modules.items())
        if name.startswith(f"{package.name}.") and module is not errors
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
    despite = sorted(NOT_REACHED.keys() & reached)
    return [f"never reached: {name}" for name in never] + [f"reached despite its reason: {name}" for name in despite]


def _calls(text: str) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
