"""An account's rows of a dataset or a mart as a DataFrame, for tests."""

import pandas as pd

from seller_platform.contract import Dataset, Window
from seller_platform.warehouse.marts import Mart
from seller_platform.warehouse.postgres.database import Database
from seller_platform.warehouse.readers.frames import read_frames
from seller_platform.warehouse.readers.relations import Selection, relation_of


def read_part(database: Database, source: Dataset | Mart, account: str, window: Window | None = None) -> pd.DataFrame:
    """Return the rows of a window; without one, every row or the newest snapshot."""
    return read_frames(database, relation_of(source), [Selection(account, window)])
