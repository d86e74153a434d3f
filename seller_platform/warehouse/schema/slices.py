"""Keeps `platform.slices`: what is true of each slice now, after every receipt.

A trigger writes the row of a slice in the transaction of its load, whatever stored the receipt. A slice of a dated list
is a month of an account; of another list it is the list itself, which has no month.
"""

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.comments import comment_on_view
from seller_platform.warehouse.schema.tables import LOADS

# A hold ends when later loads, published or held, have all its days together; of a whole list with any later load.
# A reading that does not add up to its total counts until a later published one has all of its days. What else checks
# read of a load counts while any of its days is stored of it, and of a list without days until it is loaded again.
_OPEN = """
CREATE OR REPLACE FUNCTION platform.open_holds(holds bigint[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(held.id ORDER BY held.id), '{}')
    FROM platform.loads AS held
    WHERE held.id = ANY (holds) AND NOT (
        SELECT count(*) > 0 AND (coalesce(CAST(held.notes #>> '{held,covers_all}' AS boolean), false)
                                 OR daterange(held.window_start, held.window_end)
                                    <@ range_agg(daterange(later.window_start, later.window_end)))
        FROM platform.loads AS later
        WHERE later.dataset = held.dataset AND later.account = held.account AND later.id > held.id)
$$;
CREATE OR REPLACE FUNCTION platform.open_mismatches(mismatches bigint[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(load.id ORDER BY load.id), '{}')
    FROM platform.loads AS load
    WHERE load.id = ANY (mismatches) AND NOT EXISTS (
        SELECT FROM platform.published_loads AS later
        WHERE later.dataset = load.dataset AND later.account = load.account AND later.id > load.id
          AND later.window_start <= load.window_start AND later.window_end >= load.window_end)
$$;
CREATE OR REPLACE FUNCTION platform.open_notes(noted bigint[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(load.id ORDER BY load.id), '{}')
    FROM platform.loads AS load
    WHERE load.id = ANY (noted) AND NOT (
        SELECT count(*) > 0 AND (platform.month_of_slice(load.dataset, load.window_start) IS NULL
                                 OR daterange(load.window_start, load.window_end)
                                    <@ range_agg(daterange(later.window_start, later.window_end)))
        FROM platform.published_loads AS later
        WHERE later.dataset = load.dataset AND later.account = load.account AND later.id > load.id
          AND later.notes ->> 'report_id' IS NOT DISTINCT FROM load.notes ->> 'report_id')
$$;
CREATE OR REPLACE FUNCTION platform.has_notes(notes jsonb, restatement jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE
AS $$
    SELECT coalesce(notes ?| ARRAY['moved', 'null_keys', 'duplicate_keys', 'replaced_text', 'unreadable_values',
                                   'excess_digits', 'unknown_fields', 'unusable_accounts', 'moved_accounts',
                                   'unusual_days']
                    OR notes ? 'was_settled' AND restatement IS NOT NULL, false)
$$
"""

_RECEIPTS = """
CREATE OR REPLACE VIEW platform.published_loads AS SELECT * FROM platform.loads WHERE verdict <> 'held';
CREATE OR REPLACE VIEW platform.readings AS SELECT * FROM platform.published_loads WHERE notes -> 'reverts_load' IS NULL
"""
_COMMENTS_OF_RECEIPTS = {
    "published_loads": "Receipts of loads that were published: readings that were not held, and reverts.",
    "readings": "Receipts of readings that were published.",
}

_MONTH_OF_SLICE = sql.SQL("""
CREATE OR REPLACE FUNCTION platform.month_of_slice(dataset text, first_day date) RETURNS date LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN dataset = ANY ({dated}) THEN CAST(date_trunc('month', CAST(first_day AS timestamp)) AS date) END
$$
""")

# Days that were read under another time zone or currency have to be read again. A revert reads nothing.
_KEEP = """
CREATE OR REPLACE FUNCTION platform.keep_slice() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    of_month CONSTANT date := platform.month_of_slice(NEW.dataset, NEW.window_start);
    first CONSTANT integer := extract(day FROM NEW.window_start);
    last CONSTANT integer := first + (NEW.window_end - NEW.window_start) - 1;
    is_reading CONSTANT boolean := NEW.notes -> 'reverts_load' IS NULL;
    has_today CONSTANT boolean :=
        is_reading AND NEW.window_end > CAST(NEW.started_at AT TIME ZONE coalesce(NEW.time_zone, 'UTC') AS date);
    is_whole CONSTANT boolean := of_month IS NULL OR first = 1 AND NEW.window_end = of_month + interval '1 month';
    snapshot_day CONSTANT date := CASE WHEN of_month IS NULL THEN NEW.window_start END;
    mismatches CONSTANT bigint[] := CASE WHEN NEW.verdict = 'mismatch' THEN ARRAY[NEW.id] ELSE '{}' END;
    noted CONSTANT bigint[] :=
        CASE WHEN platform.has_notes(NEW.notes, NEW.restatement) THEN ARRAY[NEW.id] ELSE '{}' END;
BEGIN
    IF NEW.verdict = 'held' THEN
        INSERT INTO platform.slices AS slice (dataset, account, month, held_load_ids)
        VALUES (NEW.dataset, NEW.account, of_month, ARRAY[NEW.id])
        ON CONFLICT (dataset, account, month) DO UPDATE
        SET held_load_ids = platform.open_holds(slice.held_load_ids || NEW.id);
        RETURN NULL;
    END IF;
    INSERT INTO platform.slices AS slice (
        dataset, account, month, load_id, changed_load_id, verdict, first_day, newest_day, rows, read_at, current_at,
        days_read, time_zone, currency, mismatched_load_ids, noted_load_ids
    ) VALUES (
        NEW.dataset, NEW.account, of_month, NEW.id, NEW.id, NEW.verdict, snapshot_day, snapshot_day, NEW.rows,
        CASE WHEN is_reading THEN NEW.started_at END, CASE WHEN has_today THEN NEW.started_at END,
        CASE WHEN is_reading AND of_month IS NOT NULL THEN ARRAY(
            SELECT CASE WHEN day BETWEEN first AND last THEN NEW.started_at END FROM generate_series(1, 31) AS day
        ) END,
        NEW.time_zone, NEW.currency, mismatches, noted
    )
    ON CONFLICT (dataset, account, month) DO UPDATE SET
        load_id = NEW.id,
        changed_load_id = CASE WHEN NEW.changed THEN NEW.id ELSE slice.changed_load_id END,
        verdict = NEW.verdict,
        first_day = least(slice.first_day, snapshot_day),
        newest_day = greatest(slice.newest_day, snapshot_day),
        rows = CASE
            WHEN is_whole THEN NEW.rows
            WHEN NOT NEW.changed THEN slice.rows
            WHEN NEW.changed_days IS NULL THEN slice.rows + NEW.rows
            ELSE slice.rows + (
                SELECT coalesce(sum(CAST(day.value ->> 0 AS bigint) - CAST(day.value ->> 1 AS bigint)), 0)
                FROM jsonb_each(NEW.changed_days) AS day
            )
        END,
        read_at = coalesce(excluded.read_at, slice.read_at),
        current_at = coalesce(excluded.current_at, slice.current_at),
        days_read = CASE
            WHEN excluded.days_read IS NULL THEN slice.days_read
            WHEN slice.days_read IS NULL
                 OR coalesce(slice.time_zone <> NEW.time_zone OR slice.currency <> NEW.currency, false)
            THEN excluded.days_read
            ELSE ARRAY(
                SELECT coalesce(day.later, day.former)
                FROM unnest(excluded.days_read, slice.days_read) WITH ORDINALITY AS day (later, former, number)
                ORDER BY number
            )
        END,
        time_zone = coalesce(excluded.time_zone, slice.time_zone),
        currency = coalesce(excluded.currency, slice.currency),
        mismatched_load_ids = platform.open_mismatches(slice.mismatched_load_ids) || mismatches,
        noted_load_ids = platform.open_notes(slice.noted_load_ids) || noted,
        held_load_ids = platform.open_holds(slice.held_load_ids),
        recounted_rows = NULL;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER keep_slice AFTER INSERT ON platform.loads FOR EACH ROW EXECUTE FUNCTION platform.keep_slice();
CREATE OR REPLACE FUNCTION platform.stamp_slice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.transaction_id := pg_current_xact_id();
    IF TG_OP = 'INSERT' OR NEW.days_read IS DISTINCT FROM OLD.days_read THEN
        NEW.read_after_days := (
            SELECT CASE WHEN count(read_at) = count(*)
                        THEN min(CAST(read_at AT TIME ZONE coalesce(NEW.time_zone, 'UTC') AS date)
                                 - (NEW.month + CAST(number AS integer) - 1)) END
            FROM unnest(NEW.days_read) WITH ORDINALITY AS day (read_at, number)
            WHERE number <= extract(day FROM NEW.month + interval '1 month - 1 day')
        );
    END IF;
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER stamp_slice BEFORE INSERT OR UPDATE ON platform.slices FOR EACH ROW
EXECUTE FUNCTION platform.stamp_slice();
COMMENT ON FUNCTION platform.open_holds IS 'The ones of these held readings whose days no later loads have.';
COMMENT ON FUNCTION platform.open_mismatches IS 'The ones of these loads that no later load replaced.';
COMMENT ON FUNCTION platform.month_of_slice IS 'The month of the slice with a day; null where a list has no days.';
COMMENT ON FUNCTION platform.keep_slice IS 'Writes the row of a slice after a receipt of it.';
COMMENT ON FUNCTION platform.open_notes IS 'The ones of these loads of which days are stored.';
COMMENT ON FUNCTION platform.has_notes IS 'Whether a check may fail for the notes of a load.';
COMMENT ON FUNCTION platform.stamp_slice IS 'Sets the transaction of a slice and read_after_days.'
"""

DAYS_OF_SLICE = """
    CASE WHEN slice.read_after_days IS NOT NULL
         THEN datemultirange(daterange(slice.month, CAST(slice.month + interval '1 month' AS date)))
         ELSE (SELECT range_agg(daterange(slice.month + CAST(number AS integer) - 1,
                                          slice.month + CAST(number AS integer)))
               FROM unnest(slice.days_read) WITH ORDINALITY AS day (moment, number) WHERE moment IS NOT NULL)
    END
"""
"""The expression for the days of the month of a `slice` that were read."""


def keep_slices(connection: Connection) -> None:
    """Create the views of receipts, the trigger that writes the row of a slice after each, and its functions, anew."""
    driver = driver_of(connection)
    driver.execute(_RECEIPTS)
    for view, comment in _COMMENTS_OF_RECEIPTS.items():
        comment_on_view(
            driver, f"platform.{view}", comment, {column.name: column.comment or "" for column in LOADS.columns}
        )
    dated = [dataset.name for dataset in DATASETS if dataset.is_dated]
    driver.execute(_MONTH_OF_SLICE.format(dated=sql.Literal(dated)))
    driver.execute(_OPEN)
    driver.execute(_KEEP)
