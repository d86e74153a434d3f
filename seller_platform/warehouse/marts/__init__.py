"""The marts: tables of schema `marts` that are computed from the datasets, each declared once."""

from seller_platform.warehouse.marts.declaration import Chart, ChartForm, Input, Mart, MartCheck, MartColumn, Parameter
from seller_platform.warehouse.marts.registry import MARTS, mart_named

__all__ = ["MARTS", "Chart", "ChartForm", "Input", "Mart", "MartCheck", "MartColumn", "Parameter", "mart_named"]
