"""How Alembic meets the demo's staging database: on the connection it is given, or at STAGING_URL from a shell."""

import os

from alembic import context
from sqlalchemy import create_engine

given = context.config.attributes.get("connection")
connection = given if given is not None else create_engine(os.environ["STAGING_URL"]).connect()
context.configure(connection=connection)
with context.begin_transaction():
    context.run_migrations()
if given is None:
    connection.close()
