"""The billing database as the team knows it: customers, their invoices, and the lines on them."""

import sqlalchemy as sa
from alembic import op

revision = "0141_baseline"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE TYPE invoice_state AS ENUM ('draft', 'sent', 'paid', 'void')")
    op.create_table(
        "customers",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("country", sa.CHAR(2), nullable=False, server_default="DE"),
        sa.CheckConstraint("country = upper(country)", name="customer_country_is_upper"),
    )
    op.create_table(
        "invoices",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("customer_id", sa.BigInteger, sa.ForeignKey("customers.id", ondelete="RESTRICT"), nullable=False),
        sa.Column("number", sa.Text, nullable=False, unique=True),
        sa.Column("issued", sa.Date, nullable=False),
        sa.Column("state", sa.Enum(name="invoice_state", create_type=False, native_enum=True), server_default="draft", nullable=False),
        comment="One row for each invoice, also the void ones: numbers have no gaps.",
    )
    op.create_index("invoices_unpaid", "invoices", ["issued"], postgresql_where=sa.text("state = 'sent'"))
    op.create_table(
        "invoice_lines",
        sa.Column("invoice_id", sa.BigInteger, sa.ForeignKey("invoices.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("position", sa.SmallInteger, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("net", sa.Numeric(12, 2), nullable=False),
    )
    op.execute("CREATE VIEW invoice_totals AS SELECT invoice_id, sum(net) AS net FROM invoice_lines GROUP BY invoice_id")


def downgrade() -> None:
    op.execute("DROP VIEW invoice_totals")
    for table in ("invoice_lines", "invoices", "customers"):
        op.drop_table(table)
    op.execute("DROP TYPE invoice_state")
