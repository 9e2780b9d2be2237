"""Invoices say how they are billed, so that the billing panel can show it."""

import sqlalchemy as sa
from alembic import op

revision = "0142_invoice_billing_field"
down_revision = "0141_baseline"


def upgrade() -> None:
    op.add_column("invoices", sa.Column("billing_mode", sa.Text, nullable=False, server_default="per_seat"))
    op.create_check_constraint("invoice_billing_mode_is_known", "invoices", "billing_mode IN ('per_seat', 'usage', 'flat')")
    op.create_index("invoices_by_billing_mode", "invoices", ["billing_mode", "issued"])


def downgrade() -> None:
    op.drop_index("invoices_by_billing_mode", table_name="invoices")
    op.drop_constraint("invoice_billing_mode_is_known", "invoices")
    op.drop_column("invoices", "billing_mode")
