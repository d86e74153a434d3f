"""The decimals of amounts, as SQL."""

from psycopg import sql

from seller_platform.contract.currencies import MINOR_DIGITS, OTHER_MINOR_DIGITS


def digits_of(currency: sql.Composable) -> sql.Composed:
    """Return an expression for the decimals of an amount in a currency."""
    others = [sql.SQL("WHEN {} THEN {}").format(code, sql.Literal(each)) for code, each in OTHER_MINOR_DIGITS.items()]
    return sql.SQL("CASE {} {} ELSE {} END").format(currency, sql.SQL(" ").join(others), sql.Literal(MINOR_DIGITS))
