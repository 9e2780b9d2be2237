"""Every setting of the project. What differs between installations comes from the environment, by sagaboard.env."""

from __future__ import annotations

import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from sagaboard import env
from sagaboard.secrets_file import secret_key

BASE_DIR = env.BASE
SAGABOARD_STATE = env.state_folder()
running = env.running_urls()

DEBUG = env.flag("SAGABOARD_DEBUG")
SECRET_KEY = os.environ.get("SAGABOARD_SECRET_KEY") or secret_key(SAGABOARD_STATE)
ALLOWED_HOSTS = env.words("SAGABOARD_HOSTS", ["127.0.0.1", "localhost", "[::1]", "testserver"])
# Where mails and answers say that the pages are.
SAGABOARD_URL = os.environ.get("SAGABOARD_URL", "http://127.0.0.1:8000").rstrip("/")
BEHIND_TLS = SAGABOARD_URL.startswith("https://")

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django_htmx",
    "guardian",
    "sagaboard.accounts",
    "runs",
    "outbox",
    "corrections",
    "sagaboard",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "runs.api_support.Problems",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "sagaboard.web.HtmxLoginRedirect",
    "sagaboard.web.PersonsTimeZone",
    "sagaboard.whence.NotesWhence",
    "sagaboard.web.RetryWhole",
]

ROOT_URLCONF = "sagaboard.urls"
WSGI_APPLICATION = "sagaboard.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "sagaboard.web.frame",
            ],
            "builtins": ["sagaboard.templatetags.words", "sagaboard.templatetags.regions"],
        },
    }
]

# The role that web and workers take: it owns no table and can only read and add to the log. Migrations make and grant it.
RUNTIME_ROLE = os.environ.get("SAGABOARD_DB_ROLE", "sagaboard_app")
AS_OWNER = env.flag("SAGABOARD_AS_OWNER")
database_url = os.environ.get("DATABASE_URL") or running.get("DATABASE_URL") or "postgresql://localhost/sagaboard"
if AS_OWNER:
    database_url = os.environ.get("DATABASE_OWNER_URL") or database_url
DATABASES = {"default": env.database(database_url, role=None if AS_OWNER else RUNTIME_ROLE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = [
    "sagaboard.accounts.backend.WithRights",
    # Named by the sessions of people who signed in before there was the one above.
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
ANONYMOUS_USER_NAME = None
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "sagaboard.web.csrf_failure"
CSRF_TRUSTED_ORIGINS = [SAGABOARD_URL]
SECURE_REFERRER_POLICY = "same-origin"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.flag("SAGABOARD_TRUST_PROXY") else None
X_FRAME_OPTIONS = "DENY"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# No collectstatic step: what is in the checkout is what is served.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
# Of forms and of what agents send. Larger ones are refused unread.
DATA_UPLOAD_MAX_MEMORY_SIZE = SAGABOARD_MAX_BODY = 1_048_576
FORM_RENDERER = "django.forms.renderers.DjangoTemplates"

EMAIL_BACKEND = os.environ.get("SAGABOARD_EMAIL_BACKEND", "django.core.mail.backends.console.EmailBackend")
EMAIL_HOST = os.environ.get("SAGABOARD_SMTP_HOST", "127.0.0.1")
EMAIL_PORT = int(env.number("SAGABOARD_SMTP_PORT", 25))
EMAIL_TIMEOUT = 10
EMAIL_FILE_PATH = SAGABOARD_STATE / "mail"
DEFAULT_FROM_EMAIL = os.environ.get("SAGABOARD_MAIL_FROM", "sagaboard@localhost")

# Where on-call is paged besides by e-mail: {"ops": {"url": "slack://…", "teams": ["billing"]}}, any address apprise knows.
PAGE_SERVICES = env.document("SAGABOARD_PAGE_SERVICES")
for name, options in PAGE_SERVICES.items():
    if not isinstance(options, dict) or not isinstance(options.get("url"), str):
        raise ImproperlyConfigured(f"SAGABOARD_PAGE_SERVICES: “{name}” must be an object with a url, and maybe teams.")

REDIS_URL = os.environ.get("REDIS_URL") or running.get("REDIS_URL") or "redis://127.0.0.1:6379/0"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

# The engine. Seconds.
SAGABOARD_CAPABILITIES = env.words(
    "SAGABOARD_CAPABILITIES",
    [f"runs.connectors.{name}" for name in ("git", "migration", "unleash", "jira", "ci", "slack", "partner", "mail")],
)
SAGABOARD_TARGETS = env.document("SAGABOARD_TARGETS")
# Whom to tell, besides people, that something waits for a decision: {"chat": {"url": "…", "secret": "whsec_…"}}.
SAGABOARD_WEBHOOKS = env.webhooks("SAGABOARD_WEBHOOKS")
# What secret arguments refer to, by name: a JSON object, or better a file that holds one. Only workers need it.
SAGABOARD_SECRETS = env.document("SAGABOARD_SECRETS")
for name, options in SAGABOARD_TARGETS.items():
    if not isinstance(options, dict) or "system" not in options:
        raise ImproperlyConfigured(f"SAGABOARD_TARGETS: “{name}” must be an object that names its system.")
# A lease outlasts the hard timeout of the call it covers by this much.
LEASE_MARGIN = env.number("SAGABOARD_LEASE_MARGIN", 5)
# An installation may cap what capabilities ask for: the hard timeout of a call, and the patience with slow systems.
CALL_TIMEOUT_AT_MOST = env.number("SAGABOARD_CALL_TIMEOUT_AT_MOST", 900)
PATIENCE_AT_MOST = env.number("SAGABOARD_PATIENCE_AT_MOST", 900)
# What is due and nobody takes for so long is late: the pages and /workz say so.
LATE_AFTER = env.number("SAGABOARD_LATE_AFTER", 30)
# A worker that takes nothing for so long although its queue is not empty ends itself, and is started again.
STALLED_AFTER = env.number("SAGABOARD_STALLED_AFTER", 30)
SWEEP_EVERY = env.number("SAGABOARD_SWEEP_EVERY", 5)
# Where the log's heads are kept outside the database; best on another disk than the database's.
ANCHOR_DIR = Path(os.environ.get("SAGABOARD_ANCHOR_DIR") or SAGABOARD_STATE / "anchors")
# How long a finished run may wait for its checks.
CHECKING_DEADLINE = env.number("SAGABOARD_CHECKING_DEADLINE", 2 * 3600)
# What waits for longer than this, for a person or for an answer, is told to somebody.
PAGE_AFTER = env.number("SAGABOARD_PAGE_AFTER", 600)
# How long a call on hold waits for a person, and a call for a target that says "later", before it ends.
HELD_AT_MOST = env.number("SAGABOARD_HELD_AT_MOST", 24 * 3600)
PUT_OFF_AT_MOST = env.number("SAGABOARD_PUT_OFF_AT_MOST", 6 * 3600)
# How long after its end a run's calls can still be found by the marks that they left.
TIDY_AFTER = env.number("SAGABOARD_TIDY_AFTER", 24 * 3600)
# Runs that need someone are told again this often.
REMIND_EVERY = env.number("SAGABOARD_REMIND_EVERY", 4 * 3600)
# Agents that wait (`Prefer: wait`) may hold at most half of the web threads; beyond that the answer is 202 at once.
WEB_THREADS = int(env.number("SAGABOARD_WEB_THREADS", 32))
WAIT_AT_MOST = env.number("SAGABOARD_WAIT_AT_MOST", 60)
# A capability whose undo was never proven counts as irreversible; tests of other things may switch that off.
PROOF_REQUIRED = env.flag("SAGABOARD_PROOF_REQUIRED", default=True)

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(levelname)s %(name)s: %(message)s"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": os.environ.get("SAGABOARD_LOG_LEVEL", "INFO")},
    "loggers": {"httpx": {"level": "WARNING"}, "alembic": {"level": "WARNING"}},
}
