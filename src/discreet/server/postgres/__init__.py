"""PostgreSQL's protocol, version 3: every tool that knows PostgreSQL is a client of the curator."""
