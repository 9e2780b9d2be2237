#!/usr/bin/env python
"""Django's commands, ours among them."""

import os
import sys

# These change the schema or erase, so they speak to PostgreSQL as its owner; everything else takes the narrower run-time role.
OWNER_COMMANDS = {"migrate", "makemigrations", "sqlmigrate", "showmigrations", "dbshell", "flush", "erase"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sagaboard.settings")
    if len(sys.argv) > 1 and sys.argv[1] in OWNER_COMMANDS:
        os.environ["SAGABOARD_AS_OWNER"] = "1"
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
