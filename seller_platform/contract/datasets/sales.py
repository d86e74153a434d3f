"""Orders, daily product sales, transactions, and the statistics computed from them."""

from dataclasses import replace

from seller_platform.contract.dataset import Column, Dataset, Kind, Slicing, SplitFilter

SALES_CHANNEL = SplitFilter(
    parameter="sales_channel",
    values=("platform", "non-platform"),
    tag=Column(
        "sales_channel",
        Kind.TEXT,
        "Whether the sale was made on the marketplace (`platform`) or elsewhere (`non-platform`); "
        "null where the upstream does not tell.",
    ),
)

ORDERS = Dataset(
    name="orders",
    path="/sales/orders",
    doc="One product line of an order.",
    area="sales",
    slicing=Slicing.MONTH,
    page_sizes=(250, 500, 1000, 2000),
    split_by=SALES_CHANNEL,
    day="purchase_date",
    order=("purchase_date", "platform_order_id", "sku"),
    lookback_days=30,
    columns=(
        Column("platform_order_id", Kind.TEXT, "Order identifier.", key=True, example="305-1234567-1234567"),
        Column("purchase_date", Kind.TIMESTAMP, "When the order was placed.", key=True),
        Column(
            "order_status", Kind.TEXT, "State of the order, such as Shipped, Pending or Cancelled.", example="Shipped"
        ),
        Column("order_total", Kind.MONEY, "Total of this order line.", currency="currency_code"),
        Column("currency_code", Kind.TEXT, "ISO 4217 code of `order_total`.", example="EUR"),
        Column("quantity_ordered", Kind.INTEGER, "Units ordered."),
        Column("sku", Kind.TEXT, "Seller SKU.", key=True, example="MUG-BLUE-350"),
        Column("asin", Kind.TEXT, "Product identifier on the marketplace.", example="B000EXAMPL"),
        Column("product_name", Kind.TEXT, "Name of the product.", example="Mug, blue, 350 ml"),
    ),
)

DAILY_PRODUCT_SALES = Dataset(
    name="daily_product_sales",
    path="/sales/per-day-per-product",
    doc="What one SKU sold on one day in one sales channel.",
    area="sales",
    slicing=Slicing.MONTH,
    page_sizes=(500, 1000, 2000),
    split_by=replace(SALES_CHANNEL, is_merged=True),
    day="date",
    order=("date", "sku"),
    lookback_days=30,
    columns=(
        Column("date", Kind.DATE, "The day, in the account's time zone.", key=True),
        Column("sku", Kind.TEXT, "Seller SKU.", key=True, example="MUG-BLUE-350"),
        Column("product_name", Kind.TEXT, "Name of the product.", example="Mug, blue, 350 ml"),
        Column("asin", Kind.TEXT, "Product identifier on the marketplace.", example="B000EXAMPL"),
        Column("units_ordered", Kind.INTEGER, "Units ordered that day."),
        Column("product_sales", Kind.MONEY, "Revenue from the product, without tax and shipping."),
        Column("taxes", Kind.MONEY, "Tax collected on the sales.", aliases=("product_sales_tax",)),
        Column("shipping_credits", Kind.MONEY, "Shipping that the buyers paid."),
        Column("rebates", Kind.MONEY, "Promotional rebates granted to the buyers.", aliases=("promotional_rebates",)),
    ),
)

TRANSACTIONS = Dataset(
    name="transactions",
    path="/sales/transactions",
    doc="One entry of the account's ledger; equal entries are both true.",
    area="sales",
    slicing=Slicing.MONTH,
    page_sizes=(500, 1000, 2000),
    day="posted_date",
    order=("posted_date", "transaction_type", "order_id", "sku", "amount"),
    lookback_days=14,
    columns=(
        Column("posted_date", Kind.TIMESTAMP, "When the entry was posted."),
        Column("transaction_type", Kind.TEXT, "Kind of entry, such as Order, Refund or Fee.", example="Order"),
        Column(
            "order_id",
            Kind.TEXT,
            "The order it belongs to, if any.",
            aliases=("platform_order_id",),
            example="305-1234567-1234567",
        ),
        Column("sku", Kind.TEXT, "Seller SKU, if the entry concerns one product.", example="MUG-BLUE-350"),
        Column("description", Kind.TEXT, "What the entry is for.", example="Sale of one mug"),
        Column("quantity", Kind.INTEGER, "Units the entry concerns."),
        Column("amount", Kind.MONEY, "Amount; negative where the seller pays.", currency="currency"),
        Column("currency", Kind.TEXT, "ISO 4217 code of `amount`.", example="EUR"),
        Column("marketplace_name", Kind.TEXT, "Domain of the marketplace.", example="marketplace.example"),
    ),
)

_STATISTICS = (
    Column("units_ordered", Kind.INTEGER, "Units ordered in the period."),
    Column("product_sales", Kind.MONEY, "Revenue from products."),
    Column("product_cost", Kind.MONEY, "Cost of the goods sold."),
    Column("platform_fees", Kind.MONEY, "Fees of the marketplace, as a positive cost."),
    Column("profit", Kind.MONEY, "`product_sales - product_cost - platform_fees`."),
    Column("roi", Kind.NUMBER, "Profit in percent of the cost of goods; null where that is 0."),
    Column("profit_margin", Kind.NUMBER, "Profit in percent of sales; null where there were none."),
)

TREND = Column(
    "trend",
    Kind.JSON,
    "Change of units_ordered, product_sales and profit against the period before, in percent; null where that was 0.",
)

SALES_BY_PRODUCT = Dataset(
    name="sales_by_product",
    path="/sales/statistics-dashboard",
    doc="Sales, cost, fees and profit of one SKU in one month.",
    area="sales",
    slicing=Slicing.MONTH,
    page_sizes=(500, 1000, 2000),
    parameters=(("view_by", "product"), ("group_by", "sku"), ("period_by", "Month")),
    order=("sku",),
    lookback_days=30,
    columns=(
        Column("sku", Kind.TEXT, "Seller SKU.", key=True, example="MUG-BLUE-350"),
        Column("asin", Kind.TEXT, "Product identifier on the marketplace.", example="B000EXAMPL"),
        Column("product_name", Kind.TEXT, "Name of the product.", example="Mug, blue, 350 ml"),
        Column("date", Kind.TEXT, "Label of the month, such as March 2025.", example="March 2026"),
        *_STATISTICS,
    ),
)

SALES_BY_DATE = Dataset(
    name="sales_by_date",
    path="/sales/statistics-dashboard",
    doc="Sales, cost, fees and profit of the whole account on one day.",
    area="sales",
    slicing=Slicing.MONTH,
    page_sizes=(500, 1000, 2000),
    parameters=(("view_by", "date"), ("group_by", "day")),
    day="date",
    order=("date",),
    lookback_days=30,
    columns=(Column("date", Kind.DATE, "The day, in the account's time zone.", key=True), *_STATISTICS, TREND),
)

SALES = (ORDERS, DAILY_PRODUCT_SALES, TRANSACTIONS, SALES_BY_PRODUCT, SALES_BY_DATE)
