"""What a PostgreSQL database is made of, from its catalog, so that two moments can be compared.

Listed is what a developer would care about: schemas, tables with their columns, types, defaults, identity, collations,
constraints and indexes, sequences, views, functions, triggers, rules, policies, types, extensions, statistics, comments,
owners, privileges; operators, casts, publications and other rarities by name only.

Columns count in the order in which `SELECT *` shows them: one dropped and added again is at another place, and programs
that copy rows notice. The gaps that a dropped column leaves in the numbering don't count.

Left out: data, where sequences stand, what belongs to an extension, Alembic's version table, and the schema
`sagaboard_marks`, in which migrations by sagaboard are marked. The texts are PostgreSQL's own, and may differ after an
upgrade to another major.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json

from sqlalchemy import Connection, text

from runs.connectors.migration_marks import MARKS_SCHEMA

# What pg_dump fixes too: names in full, constants in one form. Undone with the savepoint.
SETTINGS = {
    "search_path": "",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "quote_all_identifiers": "off",
}


def _ours(namespace: str, catalog: str, oid: str) -> str:
    return f"""JOIN pg_namespace n ON n.oid = {namespace} AND n.nspname !~ '^pg_'
        AND n.nspname NOT IN ('information_schema', '{MARKS_SCHEMA}')
        AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = '{catalog}'::regclass AND e.objid = {oid} AND e.deptype = 'e')"""


def _acl(column: str, kind: str, owner: str) -> str:
    """Privileges in one order; none ever granted is the same as the default written out."""
    items = f"unnest(coalesce({column}, acldefault('{kind}', {owner})))"
    return f"(SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM {items} a)"


RELATION = "JOIN pg_class c ON c.oid = {} " + _ours("c.relnamespace", "pg_class", "c.oid")
# Each gives rows of (object, JSON). An object is what a person would name when asked what has changed.
QUERIES = [
    f"""SELECT 'schema ' || quote_ident(n.nspname), jsonb_build_array(pg_get_userbyid(n.nspowner), {_acl("n.nspacl", "n", "n.nspowner")})
        FROM pg_namespace n WHERE n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', '{MARKS_SCHEMA}')""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('relation', c.relkind, c.relpersistence, pg_get_userbyid(c.relowner),
            {_acl("c.relacl", "r", "c.relowner")}, am.amname, c.reloptions::text, c.relrowsecurity, c.relforcerowsecurity,
            c.relreplident, pg_get_expr(c.relpartbound, c.oid), CASE c.relkind WHEN 'p' THEN pg_get_partkeydef(c.oid) END,
            c.reloftype::regtype, c.reltablespace,
            (SELECT string_agg(i.inhparent::regclass::text, ',' ORDER BY i.inhseqno) FROM pg_inherits i WHERE i.inhrelid = c.oid))
        FROM pg_class c {_ours("c.relnamespace", "pg_class", "c.oid")} LEFT JOIN pg_am am ON am.oid = c.relam
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('column',
            row_number() OVER (PARTITION BY a.attrelid ORDER BY a.attnum), quote_ident(a.attname),
            format_type(a.atttypid, a.atttypmod), 'not null', a.attnotnull, 'default', pg_get_expr(d.adbin, d.adrelid),
            'identity', a.attidentity, 'generated', a.attgenerated, 'collation', a.attcollation::regcollation,
            'storage', a.attstorage, 'compression', a.attcompression, a.attoptions::text, a.attacl::text, a.attislocal)
        FROM pg_attribute a {RELATION.format("a.attrelid")}
        LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
        WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'c')""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('view', pg_get_viewdef(c.oid))
        FROM pg_class c {_ours("c.relnamespace", "pg_class", "c.oid")} WHERE c.relkind IN ('v', 'm')""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('sequence', s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmin,
            s.seqmax, s.seqcache, s.seqcycle, pg_get_userbyid(c.relowner), {_acl("c.relacl", "s", "c.relowner")},
            (SELECT string_agg(concat_ws('.', d.refobjid::regclass, a.attname), ',') FROM pg_depend d
             JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
             WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')))
        FROM pg_sequence s {RELATION.format("s.seqrelid")}""",
    f"""SELECT coalesce(nullif(k.conrelid, 0)::regclass::text, 'type ' || k.contypid::regtype),
            jsonb_build_array('constraint', quote_ident(k.conname), pg_get_constraintdef(k.oid), 'valid', k.convalidated, k.conislocal)
        FROM pg_constraint k {_ours("k.connamespace", "pg_constraint", "k.oid")}""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('index', pg_get_indexdef(x.indexrelid), 'valid', x.indisvalid,
            'clustered', x.indisclustered, 'identity', x.indisreplident)
        FROM pg_index x {RELATION.format("x.indrelid")}""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('trigger', pg_get_triggerdef(t.oid), t.tgenabled)
        FROM pg_trigger t {RELATION.format("t.tgrelid")} WHERE NOT t.tgisinternal""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('rule', pg_get_ruledef(r.oid), r.ev_enabled)
        FROM pg_rewrite r {RELATION.format("r.ev_class")} WHERE r.rulename <> '_RETURN'""",
    f"""SELECT c.oid::regclass::text, jsonb_build_array('policy', quote_ident(p.polname), p.polcmd, p.polpermissive,
            (SELECT string_agg(r::regrole::text, ',' ORDER BY r::regrole::text) FROM unnest(p.polroles) r),
            'using', pg_get_expr(p.polqual, p.polrelid), 'check', pg_get_expr(p.polwithcheck, p.polrelid))
        FROM pg_policy p {RELATION.format("p.polrelid")}""",
    f"""SELECT s.stxrelid::regclass::text, jsonb_build_array('statistics', pg_get_statisticsobjdef(s.oid), s.stxstattarget)
        FROM pg_statistic_ext s {_ours("s.stxnamespace", "pg_statistic_ext", "s.oid")}""",
    f"""SELECT p.oid::regprocedure::text, jsonb_build_array(p.prokind, pg_get_userbyid(p.proowner), {_acl("p.proacl", "f", "p.proowner")},
            CASE WHEN p.prokind = 'a' THEN jsonb_build_array(g.aggtransfn, g.aggfinalfn, g.aggtranstype::regtype, g.agginitval)
                 ELSE to_jsonb(pg_get_functiondef(p.oid)) END)
        FROM pg_proc p {_ours("p.pronamespace", "pg_proc", "p.oid")} LEFT JOIN pg_aggregate g ON g.aggfnoid = p.oid""",
    f"""SELECT 'type ' || t.oid::regtype, jsonb_build_array(t.typtype, pg_get_userbyid(t.typowner), {_acl("t.typacl", "T", "t.typowner")},
            format_type(nullif(t.typbasetype, 0), t.typtypmod), 'default', t.typdefault, 'not null', t.typnotnull,
            (SELECT string_agg(quote_literal(e.enumlabel), ',' ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid),
            (SELECT concat_ws(',', r.rngsubtype::regtype, r.rngcanonical, r.rngsubdiff) FROM pg_range r WHERE r.rngtypid = t.oid))
        FROM pg_type t {_ours("t.typnamespace", "pg_type", "t.oid")} LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.typtype <> 'm' AND t.typcategory <> 'A' AND coalesce(c.relkind, 'c') = 'c'""",
    """SELECT 'extension ' || quote_ident(x.extname), jsonb_build_array(x.extversion, x.extnamespace::regnamespace)
        FROM pg_extension x""",
    """SELECT 'event trigger ' || quote_ident(evtname), jsonb_build_array(evtevent, evtfoid::regproc, evtenabled, evttags::text)
        FROM pg_event_trigger""",
    """SELECT 'default privileges of ' || pg_get_userbyid(defaclrole),
            jsonb_build_array(nullif(defaclnamespace, 0)::regnamespace, defaclobjtype, defaclacl::text)
        FROM pg_default_acl""",
    f"""SELECT CASE d.classoid WHEN 'pg_class'::regclass THEN d.objoid::regclass::text ELSE o.type || ' ' || o.identity END,
            jsonb_build_array('comment', o.identity, d.description)
        FROM pg_description d, pg_identify_object(d.classoid, d.objoid, d.objsubid) o
        WHERE (d.objoid >= 16384 OR d.classoid = 'pg_namespace'::regclass) AND o.identity !~ '^(pg_|{MARKS_SCHEMA}$)'
          AND coalesce(o.schema, '') !~ '^(pg_|information_schema$|{MARKS_SCHEMA}$)'
          AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = d.classoid AND e.objid = d.objoid AND e.deptype = 'e')""",
    """SELECT o.type || ' ' || o.identity, 'exists'
        FROM (SELECT tableoid, oid FROM pg_operator UNION ALL SELECT tableoid, oid FROM pg_opclass
              UNION ALL SELECT tableoid, oid FROM pg_opfamily UNION ALL SELECT tableoid, oid FROM pg_collation
              UNION ALL SELECT tableoid, oid FROM pg_ts_config UNION ALL SELECT tableoid, oid FROM pg_ts_dict
              UNION ALL SELECT tableoid, oid FROM pg_conversion UNION ALL SELECT tableoid, oid FROM pg_cast
              UNION ALL SELECT tableoid, oid FROM pg_foreign_data_wrapper UNION ALL SELECT tableoid, oid FROM pg_foreign_server
              UNION ALL SELECT tableoid, oid FROM pg_publication UNION ALL SELECT tableoid, oid FROM pg_publication_rel
              UNION ALL SELECT tableoid, oid FROM pg_language UNION ALL SELECT tableoid, oid FROM pg_am) x,
             pg_identify_object(x.tableoid, x.oid, 0) o
        WHERE x.oid >= 16384
          AND NOT EXISTS (SELECT FROM pg_depend e WHERE e.classid = x.tableoid AND e.objid = x.oid AND e.deptype = 'e')""",
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Schema:
    """A database's structure: the hash over all of it, and a short one for each object, to tell what has changed."""

    hash: str
    objects: dict[str, str]

    def changes(self, since: dict[str, str]) -> list[str]:
        """“public.invoices changed”, “public.x is new”, “public.y is gone”, against an earlier `objects`."""
        words = dict.fromkeys(self.objects.keys() - since.keys(), "is new")
        words |= dict.fromkeys(since.keys() - self.objects.keys(), "is gone")
        words |= {name: "changed" for name, was in since.items() if self.objects.get(name, was) != was}
        return [f"{name} {word}" for name, word in sorted(words.items())]


def read_schema(connection: Connection, *, version_table: str = "alembic_version") -> Schema:
    """The structure as this transaction sees it; the transaction's own settings are as before afterwards."""
    lines = _lines(connection, version_table)
    objects = {name: _digest(found)[:12] for name, found in lines.items()}
    return Schema(_digest(sorted(lines.items())), objects)


def schema_hash(connection: Connection) -> str:
    """64 hex digits over everything `read_schema` lists."""
    return read_schema(connection).hash


def _lines(connection: Connection, version_table: str) -> dict[str, list[str]]:
    """The sorted lines of every object, except of the version table."""
    ignored = connection.scalar(text("SELECT to_regclass(:name)::oid"), {"name": version_table})
    lines: dict[str, list[str]] = {}
    savepoint = connection.begin_nested()
    try:
        for setting, value in SETTINGS.items():
            connection.execute(text("SELECT set_config(:setting, :value, true)"), {"setting": setting, "value": value})
        if ignored is not None:
            ignored = connection.scalar(text("SELECT CAST(CAST(:oid AS oid) AS regclass)::text"), {"oid": ignored})
        for query in QUERIES:
            for name, line in connection.exec_driver_sql(query):
                if name != ignored:
                    lines.setdefault(name, []).append(json.dumps(line))
    finally:
        savepoint.rollback()
    return {name: sorted(found) for name, found in lines.items()}


def _digest(found: object) -> str:
    return hashlib.sha256(json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass")).hexdigest()
