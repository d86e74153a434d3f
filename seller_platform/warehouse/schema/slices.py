"""Keeps `platform.slices`: what is true of each slice now, after every receipt.

A trigger writes the row of a slice in the transaction of its load, whatever stored the receipt. A slice of a dated list
is a month of an account; of another list it is the list itself, which has no month.
"""

from psycopg import sql
from sqlalchemy import Connection

from seller_platform.contract import DATASETS
from seller_platform.warehouse.postgres.database import driver_of
from seller_platform.warehouse.schema.creation import create_view
from seller_platform.warehouse.schema.tables import LOADS

_FUNCTIONS = """
-- A settled window may change by a few rows.
CREATE OR REPLACE FUNCTION platform.is_restated(change jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT abs(CAST(change ->> 'after' AS numeric) - CAST(change ->> 'before' AS numeric))
           > abs(CAST(change ->> 'before' AS numeric)) / 100
$$;
-- A load that is held ends when later loads, published or held, have all its days together. One that does not add up
-- to its total, or has notes that a check reads, ends when published ones have. Of a list without days any later does.
CREATE OR REPLACE FUNCTION platform.open_loads(ids bigint[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(load.id ORDER BY load.id), '{}')
    FROM platform.loads AS load
    WHERE load.id = ANY (ids) AND NOT (
        SELECT count(*) > 0 AND (platform.month_of_slice(load.dataset, load.window_start) IS NULL
                                 OR daterange(load.window_start, load.window_end)
                                    <@ range_agg(daterange(later.window_start, later.window_end)))
        FROM platform.loads AS later
        WHERE later.dataset = load.dataset AND later.account = load.account AND later.id > load.id
          AND (later.verdict <> 'held' OR load.verdict = 'held')
          AND later.notes ->> 'report_id' IS NOT DISTINCT FROM load.notes ->> 'report_id')
$$;
CREATE OR REPLACE FUNCTION platform.is_confirmed(mismatch bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT count(DISTINCT CAST(other.started_at AT TIME ZONE 'UTC' AS date)) >= 3
    FROM platform.loads AS load
    JOIN platform.loads AS other ON other.dataset = load.dataset AND other.account = load.account
         AND (other.window_start < load.window_end AND other.window_end > load.window_start
              OR platform.month_of_slice(load.dataset, load.window_start) IS NULL)
    WHERE load.id = mismatch AND other.verdict = 'mismatch' AND other.id <= load.id
      AND other.announced - other.rows IS NOT DISTINCT FROM load.announced - load.rows
      AND NOT (
          SELECT count(*) > 0 AND (platform.month_of_slice(load.dataset, load.window_start) IS NULL
                                   OR daterange(other.window_start, other.window_end)
                                      <@ range_agg(daterange(later.window_start, later.window_end)))
          FROM platform.loads AS later
          WHERE later.dataset = load.dataset AND later.account = load.account
            AND later.id > other.id AND later.id < load.id AND later.verdict NOT IN ('held', 'mismatch'))
$$;
CREATE OR REPLACE FUNCTION platform.noted_kinds(notes jsonb, restatement jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE
AS $$
    SELECT coalesce(array_agg(kind), '{}')
    FROM (VALUES
        ('restated', notes ? 'was_settled' AND EXISTS (
            SELECT FROM jsonb_each(CASE jsonb_typeof(restatement) WHEN 'object' THEN restatement ELSE '{}' END)
            WHERE platform.is_restated(value))),
        ('moved', notes ? 'moved'),
        ('keyless', notes ? 'null_keys'),
        ('duplicated', CAST(notes ->> 'duplicate_keys' AS bigint) > 0),
        ('replaced', notes ? 'replaced_text'),
        ('unreadable', notes ? 'unreadable_values'),
        ('overprecise', notes ? 'excess_digits'),
        ('undeclared', jsonb_array_length(notes -> 'unknown_fields') > 0),
        ('unusable', notes -> 'unusable_accounts' <> '{}'),
        ('unusual', notes -> 'unusual_days' <> '{}')
    ) AS noted (kind, is_noted)
    WHERE is_noted
$$;
CREATE OR REPLACE FUNCTION platform.rows_named(noted jsonb) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(format('row %s of page %s (%s)', entry ->> 'row', entry ->> 'page',
                             (SELECT string_agg(name, ', ')
                              FROM jsonb_array_elements_text(entry -> 'columns') AS field (name))), '; ')
           || CASE WHEN CAST(noted ->> 'rows' AS integer) > jsonb_array_length(noted -> 'first')
                   THEN format(' and %s more',
                               CAST(noted ->> 'rows' AS integer) - jsonb_array_length(noted -> 'first')) ELSE '' END
    FROM jsonb_array_elements(noted -> 'first') AS entry
$$;
COMMENT ON FUNCTION platform.rows_named IS 'The rows that a load noted, as text.';
-- Days that were read under another time zone or currency have to be read again. A revert reads nothing.
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
        CASE WHEN platform.noted_kinds(NEW.notes, NEW.restatement) <> '{}' THEN ARRAY[NEW.id] ELSE '{}' END;
BEGIN
    IF NEW.verdict = 'held' THEN
        INSERT INTO platform.slices AS slice (dataset, account, month, held_load_ids)
        VALUES (NEW.dataset, NEW.account, of_month, ARRAY[NEW.id])
        ON CONFLICT (dataset, account, month) DO UPDATE
        SET held_load_ids = platform.open_loads(slice.held_load_ids || NEW.id);
        RETURN NULL;
    END IF;
    UPDATE platform.slices
    SET first_day = least(first_day, snapshot_day),
        changed_load_id = CASE WHEN NEW.changed THEN NEW.id ELSE changed_load_id END
    WHERE of_month IS NULL AND dataset = NEW.dataset AND account = NEW.account AND month IS NULL
      AND (load_id > NEW.id OR newest_day > snapshot_day);
    IF FOUND THEN
        RETURN NULL;  -- an older load of a list without days, which ends after a newer one
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
        mismatched_load_ids = platform.open_loads(slice.mismatched_load_ids) || mismatches,
        noted_load_ids = platform.open_loads(slice.noted_load_ids) || noted,
        held_load_ids = platform.open_loads(slice.held_load_ids),
        recounted_rows = NULL;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER keep_slice AFTER INSERT ON platform.loads FOR EACH ROW EXECUTE FUNCTION platform.keep_slice();
CREATE OR REPLACE FUNCTION platform.stamp_slice() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.transaction_id := pg_current_xact_id();
    NEW.since := (
        SELECT coalesce(jsonb_object_agg(kind, coalesce(OLD.since -> kind, to_jsonb(began))), '{}')
        FROM (SELECT kind, min(started_at) AS began
              FROM platform.loads, unnest(
                  platform.noted_kinds(notes, restatement)
                  || CASE WHEN id = ANY (NEW.held_load_ids) THEN 'held'
                          WHEN id = ANY (NEW.mismatched_load_ids) THEN 'mismatched' END) AS kind
              WHERE id = ANY (NEW.noted_load_ids || NEW.held_load_ids || NEW.mismatched_load_ids) AND kind IS NOT NULL
              GROUP BY kind
              UNION ALL SELECT 'altered', now() WHERE NEW.recounted_rows IS NOT NULL) AS kinds
    );
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
COMMENT ON FUNCTION platform.open_loads IS 'The ones of these loads of whose days later loads do not have all.';
COMMENT ON FUNCTION platform.is_confirmed IS 'Whether loads on three days in a row lack as many rows of their total.';
COMMENT ON FUNCTION platform.month_of_slice IS 'The month of the slice with a day; null where a list has no days.';
COMMENT ON FUNCTION platform.keep_slice IS 'Writes the row of a slice after a receipt of it.';
COMMENT ON FUNCTION platform.noted_kinds IS 'The kinds of problems that a load noted.';
COMMENT ON FUNCTION platform.is_restated IS 'Whether a number of a settled window changed by more than 1 %.';
COMMENT ON FUNCTION platform.stamp_slice IS 'Sets of a slice its transaction, read_after_days and since.'
"""

_RECEIPTS = {
    "published_loads": (
        sql.SQL("SELECT * FROM platform.loads WHERE verdict <> 'held'"),
        "Receipts of loads that were published: readings that were not held, and reverts.",
    ),
    "readings": (
        sql.SQL("SELECT * FROM platform.published_loads WHERE notes -> 'reverts_load' IS NULL"),
        "Receipts of readings that were published.",
    ),
}

_MONTH_OF_SLICE = sql.SQL("""
CREATE OR REPLACE FUNCTION platform.month_of_slice(dataset text, first_day date) RETURNS date LANGUAGE sql IMMUTABLE
AS $$ SELECT CASE WHEN dataset = ANY ({dated}) THEN CAST(date_trunc('month', CAST(first_day AS timestamp)) AS date) END
$$
""")


def keep_slices(connection: Connection) -> None:
    """Create anew the views of receipts, and the trigger with its functions that writes a slice after each receipt."""
    driver = driver_of(connection)
    columns = {column.name: column.comment or "" for column in LOADS.columns}
    for view, (query, comment) in _RECEIPTS.items():
        create_view(driver, f"platform.{view}", query, comment, columns)
    dated = [dataset.name for dataset in DATASETS if dataset.is_dated]
    driver.execute(_MONTH_OF_SLICE.format(dated=sql.Literal(dated)))
    driver.execute(_FUNCTIONS)
