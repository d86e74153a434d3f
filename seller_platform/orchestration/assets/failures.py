"""How a step ends in which some things failed and all others did not: each is named with its reason."""

from collections.abc import Mapping

import dagster as dg

from seller_platform.errors import SellerPlatformError
from seller_platform.orchestration.tags import EXIT_CODE


def fail_partitions(failures: Mapping[str, SellerPlatformError], what: str) -> None:
    """Fail the step if any of its partitions failed.

    Args:
        failures: The error of each, by its key.
        what: What did not happen to which partitions, as it follows their number.

    Raises:
        dagster.Failure: One did.
    """
    fail_each(
        failures,
        f"{len(failures)} {what}: {', '.join(failures)}. All others were. "
        "Mend the cause, then backfill the failed and missing partitions",
    )


def fail_each(failures: Mapping[str, SellerPlatformError], told: str) -> None:
    """Fail the step if anything in it failed, with the reason of each in the metadata.

    Raises:
        dagster.Failure: Something did. It is not retried here: every request was, as far as that can help.
    """
    if failures:
        raise dg.Failure(
            told,
            metadata={
                **{name: str(error) for name, error in failures.items()},
                EXIT_CODE: max(error.exit_code for error in failures.values()),
            },
            allow_retries=False,
        )
