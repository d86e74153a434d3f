"""Discovery: which accounts a connection sees."""

from dataclasses import replace
from datetime import UTC, date, datetime

from seller_platform.client.api import SellerApi
from seller_platform.client.discovery import fetch_accounts, fetch_user
from seller_platform.contract import Window
from seller_platform.contract.datasets.user import ACCOUNTS
from seller_platform.warehouse.accounts import KnownAccount, KnownConnection, save_accounts, save_connection
from seller_platform.warehouse.database import Database
from seller_platform.warehouse.slices import Measured, Receipt, Slice, open_load
