"""The log links itself: a trigger allots seq, time and hash, and others refuse every change."""

from django.db import migrations

LINK = """
CREATE FUNCTION runs_link_entry() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    before record;
BEGIN
    -- The run's row is the lock that orders its entries; a writer that forgot to take it takes it here.
    PERFORM 1 FROM runs_run WHERE id = NEW.run_id FOR NO KEY UPDATE;
    SELECT seq, hash INTO before FROM runs_logentry WHERE run_id = NEW.run_id ORDER BY seq DESC LIMIT 1;
    NEW.seq := coalesce(before.seq, 0) + 1;
    NEW.at := clock_timestamp();
    NEW.hash := encode(sha256(convert_to(concat_ws(E'\\n',
        coalesce(before.hash, ''), NEW.run_id, NEW.seq,
        to_char(NEW.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        NEW.event, coalesce(NEW.step_id::text, ''), coalesce(NEW.attempt::text, ''),
        to_jsonb(NEW.actor)::text, NEW.data::text), 'UTF8')), 'hex');
    RETURN NEW;
END $$;
CREATE TRIGGER runs_link_entry BEFORE INSERT ON runs_logentry FOR EACH ROW EXECUTE FUNCTION runs_link_entry();

CREATE FUNCTION runs_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'The log is append-only: % refused.', TG_OP USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER runs_keep_entries BEFORE UPDATE OR DELETE ON runs_logentry FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE TRIGGER runs_keep_log BEFORE TRUNCATE ON runs_logentry FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
"""

UNLINK = """
DROP TRIGGER runs_keep_log ON runs_logentry;
DROP TRIGGER runs_keep_entries ON runs_logentry;
DROP TRIGGER runs_link_entry ON runs_logentry;
DROP FUNCTION runs_refuse_change();
DROP FUNCTION runs_link_entry();
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]

    operations = [migrations.RunSQL(LINK, UNLINK)]
