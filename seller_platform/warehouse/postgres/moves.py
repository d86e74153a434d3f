"""What a database needs after a backup of it was restored on another server.

Each server counts its transactions from the beginning. The numbers that receipts and slices have are of the former
server: here they may be numbers that transactions have yet to get.
"""

from sqlalchemy import Connection, text

# The row of a slice is written in the transaction of each of its receipts.
_HAS_LATER_NUMBERS = text("""
    SELECT EXISTS (SELECT FROM platform.slices WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot()))
""")


def has_moved(connection: Connection) -> bool:
    """Return whether a number is ahead of this server, and so of another one."""
    return bool(connection.execute(_HAS_LATER_NUMBERS).scalar_one())


def renumber_after_move(connection: Connection) -> None:
    """Let every snapshot see all stored loads, if a number is of another server.

    Nothing else changes a receipt. The caller holds a lock, so that receipts are numbered again once.
    """
    if has_moved(connection):
        connection.execute(text("UPDATE platform.loads SET transaction_id = '0'"))
        connection.execute(text("UPDATE platform.slices SET rows = rows"))  # a trigger sets their number
