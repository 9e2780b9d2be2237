"""A witness in the test database: every change of a state and every log entry, with the transaction that made it.

It stands below the application, so that it sees what any process on this database does, and nobody has to report to it.
"""

from __future__ import annotations

import psycopg

WATCHED = {"run": "runs_run", "step": "runs_step", "item": "outbox_item", "correction": "corrections_correction"}
SCHEMA = """
CREATE SCHEMA witness;
CREATE TABLE witness.moves (
    n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what text NOT NULL, row bigint NOT NULL, run bigint NOT NULL, step bigint,
    was text, "is" text NOT NULL, tx bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint
);
CREATE FUNCTION witness.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
    before text;
    its_run bigint;
    its_step bigint;
BEGIN
    IF TG_ARGV[0] = 'entry' THEN
        INSERT INTO witness.moves (what, row, run, step, "is") VALUES ('entry', NEW.id, NEW.run_id, NEW.step_id, NEW.event);
        RETURN NULL;
    END IF;
    IF TG_OP = 'UPDATE' THEN
        before := OLD.state;
        IF before = NEW.state THEN RETURN NULL; END IF;
    END IF;
    IF TG_ARGV[0] = 'run' THEN
        its_run := NEW.id;
    ELSIF TG_ARGV[0] = 'item' THEN
        its_step := NEW.step_id;
        SELECT run_id INTO its_run FROM public.runs_step WHERE id = NEW.step_id;
    ELSE
        its_run := NEW.run_id;
        IF TG_ARGV[0] = 'step' THEN its_step := NEW.id; END IF;
    END IF;
    INSERT INTO witness.moves (what, row, run, step, was, "is") VALUES (TG_ARGV[0], NEW.id, its_run, its_step, before, NEW.state);
    RETURN NULL;
END $$;
CREATE TRIGGER witness_entries AFTER INSERT ON public.runs_logentry FOR EACH ROW EXECUTE FUNCTION witness.note('entry');
GRANT USAGE ON SCHEMA witness TO PUBLIC;
GRANT SELECT ON witness.moves TO PUBLIC;
"""


def install(owner_url: str) -> None:
    """Puts the witness into the migrated database."""
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(SCHEMA)
        for what, table in WATCHED.items():
            when = f"AFTER INSERT OR UPDATE ON public.{table} FOR EACH ROW"
            owner.execute(f"CREATE TRIGGER witness_states {when} EXECUTE FUNCTION witness.note('{what}')")
