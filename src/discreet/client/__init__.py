"""The client of discreet's server.

A question is sent with an idempotency key that is kept while it is sent again, so a retry never pays twice. The token
is sent to the server alone, in clear text only on this machine, and shown nowhere.
"""
