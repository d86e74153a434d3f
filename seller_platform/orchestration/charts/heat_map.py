"""The heat map of stored slices, as SVG: a row for each account, a column for each dataset and month."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from seller_platform.contract import Dataset
from seller_platform.counts import count_of
from seller_platform.orchestration.charts.figures import INK, document, markdown_image, text_at
from seller_platform.warehouse.connections.accounts import KnownAccount
from seller_platform.warehouse.monitoring.slice_states import SliceState, SliceStates

MOST_ACCOUNTS = 40
MOST_MONTHS = 36

_WIDTH, _ROW, _TOP, _BOTTOM = 900, 18, 128, 40
_LABELS, _AGE, _GAP = 200, 60, 8
_SNAPSHOT = 14
_LONGEST_LABEL = 32
_FLAT, _STEEP = -20, -65
# They differ in lightness, too, for readers who see no difference in hue.
COLOURS = {
    SliceState.LOADED: "#0f766e",
    SliceState.LATE: "#7dd3c0",
    SliceState.INCOMPLETE: "#fbbf24",
    SliceState.MISSING: "#d1d5db",
    SliceState.MISMATCHED: "#a21caf",
    SliceState.HELD: "#ea580c",
    SliceState.FAILED: "#991b1b",
}


@dataclass(frozen=True)
class _Column:
    """The columns of a dataset: one cell of its width for each month, or one."""

    dataset: Dataset
    left: float
    cell: float


def heat_map(states: SliceStates, now: datetime) -> str:
    """Return the heat map as an image in Markdown, below a sentence that says what is left out."""
    # Those with most problems first.
    order = sorted(states.accounts, key=lambda account: (-states.problems_of(account.key), account.key))
    shown, sentence = order[:MOST_ACCOUNTS], left_out(states)
    height = _TOP + max(1, len(shown)) * _ROW + _BOTTOM
    title = "Slices stored by account, dataset and month"
    svg = document(title, sentence, (_WIDTH, height), _parts(states, shown, now, height), font_size=11)
    return f"{sentence}\n\n{markdown_image(f'{title}. {sentence}', svg)}"


def left_out(states: SliceStates) -> str:
    """Return the sentence that says which accounts and months the heat map has."""
    total, months = len(states.accounts), len(states.months)
    troubled = sum(states.problems_of(account.key) > 0 for account in states.accounts)
    sentence = f"{count_of(total, 'account')}, {troubled:,} with slices that are not loaded."
    if total > MOST_ACCOUNTS:
        more = max(0, troubled - MOST_ACCOUNTS)
        sentence += (
            f" The {MOST_ACCOUNTS} with most such slices are shown; {total - MOST_ACCOUNTS:,} are left out, "
            f"{more:,} of them with such slices."
        )
    if months > MOST_MONTHS:
        sentence += f" The last {MOST_MONTHS} of {count_of(months, 'month', 'is')} shown; all are counted."
    return sentence


def _parts(states: SliceStates, shown: Sequence[KnownAccount], now: datetime, height: int) -> Iterator[str]:
    months = states.months[-MOST_MONTHS:]
    columns = list(_columns(states.datasets, len(months)))
    for column in columns:
        left = column.left + (column.cell * (len(months) if column.dataset.is_dated else 1)) / 2
        angle = _FLAT if column.dataset.is_dated else _STEEP
        top = _TOP - (24 if column.dataset.is_dated else 8)
        yield text_at(left, top, column.dataset.name, transform=f"rotate({angle} {left:.1f} {top:.1f})")
        if column.dataset.is_dated and months:
            yield text_at(column.left, _TOP - 8, f"{months[0].start:%y-%m}", font_size=8)
    yield text_at(_WIDTH - 20, _TOP - 8, "oldest", anchor="end", font_size=9)
    if not shown:
        yield text_at(20, _TOP + 12, "There are no accounts yet.")
    for number, account in enumerate(shown):
        top = _TOP + number * _ROW
        title = account.account.title or account.key
        label = f"{title} ({account.account.country_code})" if account.account.country_code else title
        short = label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"
        yield text_at(_LABELS - 8, top + 12, short, anchor="end", colour=INK)
        for column in columns:
            cells = states.of_pair(column.dataset, account.key)
            yield from _cells(cells[-len(months) :] if column.dataset.is_dated else cells, column, top)
        yield text_at(_WIDTH - 20, top + 12, _age(states, account.key, now), anchor="end")
    left = 20.0
    for state, colour in COLOURS.items():
        yield f"<rect x='{left:.0f}' y='{height - 26}' width='12' height='12' rx='2' fill='{colour}'/>"
        yield text_at(left + 17, height - 16, state.value)
        left += 17 + 6.5 * len(state.value) + 18


def _columns(datasets: Sequence[Dataset], months: int) -> Iterator[_Column]:
    dated = [dataset for dataset in datasets if dataset.is_dated]
    others = len(datasets) - len(dated)
    room = _WIDTH - _LABELS - _AGE - others * (_SNAPSHOT + 2) - _GAP * (len(dated) + 1)
    group = room / max(1, len(dated))
    left = float(_LABELS)
    for dataset in datasets:
        yield _Column(dataset, left, group / max(1, months) if dataset.is_dated else _SNAPSHOT)
        left += group + _GAP if dataset.is_dated else _SNAPSHOT + 2


def _cells(states: Sequence[SliceState], column: _Column, top: float) -> Iterator[str]:
    """Yield a rectangle for each sequence of equal states: most accounts are one colour."""
    left = column.left
    for state, group in groupby(states):
        width = column.cell * len(list(group))
        yield (
            f"<rect x='{left:.1f}' y='{top}' width='{width:.1f}' height='{_ROW - 4}' fill='{COLOURS[state]}'>"
            f"<title>{column.dataset.name}: {state}</title></rect>"
        )
        left += width


def _age(states: SliceStates, account: str, now: datetime) -> str:
    """Return how long ago the dataset of an account that is read least was read."""
    moments = [states.read_at.get((dataset.name, account)) for dataset in states.datasets]
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(moments) or not known:
        return "never"
    hours = (now - min(known)).total_seconds() / 3600
    return f"{hours:.0f} h" if hours < 100 else count_of(round(hours / 24), "day")  # two digits
