"""Signing in without a browser."""

COOKIE = "discreet"


def sign_in(house, who):
    """The reply to somebody, by name or with a token as text, at the door."""
    body = {"token": house.tokens.get(who, who)}
    return house.call("POST", "/console/sign-in", None, body, origin=house.url)


def cookie_of(reply):
    """The cookie of a session, as a browser sends it back."""
    return reply.headers["set-cookie"].partition(";")[0]
