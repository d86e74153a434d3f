"""The marts: tables of schema `marts` that are computed from the datasets, each declared once."""

from seller_platform.warehouse.marts.declared import MARTS, mart_named
from seller_platform.warehouse.marts.mart import Chart, ChartForm, Input, Mart, MartCheck, MartColumn, Parameter

__all__ = ["MARTS", "Chart", "ChartForm", "Input", "Mart", "MartCheck", "MartColumn", "Parameter", "mart_named"]
