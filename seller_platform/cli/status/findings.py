"""What needs attention, with the exact command for each, what matters most first."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seller_platform.cli.output import with_title
from seller_platform.cli.status.overview import Overview
from seller_platform.cli.terminal.colours import Colour
from seller_platform.contract.tokens import WARN_BEFORE_DEATH
from seller_platform.counts import count_of
from seller_platform.errors import connect_command, first_few
from seller_platform.warehouse.loads.slices import doubt_of
from seller_platform.warehouse.monitoring.repeated_ledgers import RepeatedLedger

_SYNC = "seller-platform sync"
_PROBLEMS = 'seller-platform query "TABLE platform.problems"'
_REPEATED_LEDGERS = 'seller-platform query "SELECT * FROM platform.repeated_ledgers"'


@dataclass(frozen=True)
class Notice:
    """One thing that needs attention.

    Attributes:
        word: What it is, in one word.
        command: What to run; without backticks.
    """

    word: str
    colour: Colour
    text: str
    command: str


def findings(overview: Overview) -> list[Sequence[Notice]]:
    """Return the findings in groups of one kind; groups without a finding are left out."""
    kinds = (
        _grants,
        _failed,
        _held,
        _mismatched,
        _moved,
        _unread,
        _late,
        _missing,
        _postponed,
        _repeated,
        _restated,
        _ending,
        _others,
    )
    return [group for kind in kinds if (group := list(kind(overview)))]


def _grants(overview: Overview) -> Iterator[Notice]:
    for grant in overview.grants:
        if grant.refused is not None:
            text = f"the grant of connection {grant.connection}: {grant.refused}"
            yield Notice("refused", Colour.BAD, text, connect_command(grant.connection))


def _ending(overview: Overview) -> Iterator[Notice]:
    for grant in overview.grants:
        if grant.refused is None and overview.now >= grant.dies_at - WARN_BEFORE_DEATH:
            text = f"the grant of connection {grant.connection} ends at {grant.dies_at:%Y-%m-%d %H:%M} UTC"
            yield Notice("ends", Colour.DOUBTFUL, text, _SYNC)


def _failed(overview: Overview) -> Iterator[Notice]:
    """Yield a finding for each dataset and message, with its months and accounts."""
    groups: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for (dataset, account), of_pair in overview.failed.items():
        for refusal in of_pair:
            groups.setdefault((dataset, refusal.message), []).append((account, refusal.month))
    for (dataset, message), slices in sorted(groups.items(), key=lambda item: -len(item[1])):
        named = sorted({account for account, _ in slices})
        months = sorted({month for _, month in slices if month})
        of_months = f", {months[0]}" if len(months) == 1 else f", {count_of(len(months), 'month')}" if months else ""
        whose = with_title(named[0], overview.titles) if len(named) == 1 else count_of(len(named), "account")
        command = _SYNC if dataset == "accounts" else f"{_SYNC} --dataset {dataset}"
        if len(named) == 1 and dataset != "accounts":
            command += f" --account {named[0]}"
        if months:
            command += f" --from {months[0]} --to {months[-1]}"
        yield Notice("failed", Colour.BAD, f"{dataset} of {whose}{of_months}: {message}", command)


def _held(overview: Overview) -> Iterator[Notice]:
    for receipt in overview.held:
        whose = with_title(receipt.account, overview.titles)
        text = f"load {receipt.id}, {receipt.dataset} of {whose}, {receipt.window}: {doubt_of(receipt).reason}"
        yield Notice("held", Colour.DOUBTFUL, text, f"seller-platform accept {receipt.id}")


def _mismatched(overview: Overview) -> Iterator[Notice]:
    for dataset, account, month in overview.states.mismatched:
        whose = with_title(account, overview.titles)
        command = f"{_SYNC} --dataset {dataset} --account {account} --from {month} --to {month}"
        text = f"{dataset} of {whose}, {month}: the rows do not add up to the announced total"
        yield Notice("mismatch", Colour.BAD, text, command)


def _moved(overview: Overview) -> Iterator[Notice]:
    for change in overview.moved:
        whose = with_title(change.account, overview.titles)
        text = f"{whose}: {change}; until it is read again, rows are missing or twice"
        yield Notice("moved", Colour.BAD, text, change.command)


def _unread(overview: Overview) -> Iterator[Notice]:
    if overview.unread:
        named = {each.account for each in overview.unread}
        text = f"{count_of(len(overview.unread), 'dataset')} of {count_of(len(named), 'account')} were never loaded"
        if len(overview.unread) == 1:
            only = overview.unread[0]
            text = f"{only.dataset} of {with_title(only.account, overview.titles)} was never loaded"
        yield Notice("missing", Colour.BAD, text, _SYNC)


def _late(overview: Overview) -> Iterator[Notice]:
    if overview.late:
        oldest = overview.late[0]
        named = {each.account for each in overview.late}
        text = (
            f"{count_of(len(overview.late), 'dataset')} of {count_of(len(named), 'account')}; the oldest is "
            f"{oldest.dataset} of {with_title(oldest.account, overview.titles)}, read "
            f"{count_of(round(oldest.age_hours(overview.now)), 'hour')} ago"
        )
        yield Notice("late", Colour.DOUBTFUL, text, _SYNC)


def _missing(overview: Overview) -> Iterator[Notice]:
    missing = overview.states.missing
    if missing and len(overview.unread) == 0:
        named = [account.key for account in overview.accounts if overview.states.troubled_months(account.key)]
        whose = with_title(named[0], overview.titles) if len(named) == 1 else count_of(len(named), "account")
        text = f"{count_of(missing, 'month')} of datasets of {whose}: days were never loaded"
        yield Notice("missing", Colour.DOUBTFUL, text, _SYNC)


def _postponed(overview: Overview) -> Iterator[Notice]:
    if overview.postponed:
        slices = count_of(overview.postponed, "slice", "waits")
        text = f"{slices} for the requests of another day (SELLER_API_REQUESTS_PER_DAY)"
        yield Notice("postponed", Colour.DOUBTFUL, text, f"{_SYNC} --plan")


def _repeated(overview: Overview) -> Iterator[Notice]:
    """Yield a finding for each pair of accounts, about the month in which they have most in common."""
    pairs: dict[frozenset[str], list[RepeatedLedger]] = {}
    for each in overview.repeated:
        pairs.setdefault(frozenset((each.account, each.other)), []).append(each)
    for pair, of_pair in sorted(pairs.items(), key=lambda item: sorted(item[0])):
        most = max(of_pair, key=lambda each: each.share)
        first, second = (with_title(key, overview.titles) for key in sorted(pair))
        months = len({each.month for each in of_pair})
        amounts = ", ".join(f"{currency} {amount:,f}".strip() for currency, amount in sorted(most.amounts.items()))
        text = (
            f"transactions of {first} and {second}, {count_of(months, 'month')}: {100 * most.share:.0f} % of the rows "
            f"of {most.account} in {most.month:%Y-%m} are in both, so sums count {amounts} twice; sum up "
            "only one of the accounts"
        )
        yield Notice("repeated", Colour.DOUBTFUL, text, _REPEATED_LEDGERS)


def _others(overview: Overview) -> Iterator[Notice]:
    errors, warnings = (
        sum(each.slices for each in overview.others if each.is_warning is is_warning) for is_warning in (False, True)
    )
    counts = [count_of(number, word) for number, word in ((errors, "error"), (warnings, "warning")) if number]
    if counts:
        names = list(dict.fromkeys(f"{each.dataset} {each.kind}" for each in overview.others))
        colour = Colour.BAD if errors else Colour.DOUBTFUL
        yield Notice("others", colour, f"{' and '.join(counts)}: {first_few(names)}", _PROBLEMS)


def _restated(overview: Overview) -> Iterator[Notice]:
    for each in overview.activity.restatements:
        month = f" {each.first_day:%Y-%m}" if f"{each.first_day:%Y-%m}" == f"{each.last_day:%Y-%m}" else ""
        days = f"{each.first_day}" if each.first_day == each.last_day else f"{each.first_day}..{each.last_day}"
        amount = "" if each.amount is None else f"{each.amount_name} {each.amount:+,f}; "
        rows = f"{count_of(each.rows_came, 'row')} came, {each.rows_went:,} went"
        text = f"{each.dataset} of {with_title(each.account, overview.titles)}, {days}: {amount}{rows}"
        yield Notice("restated", Colour.HEADING, text, f"seller-platform diff {each.dataset} {each.account}{month}")
