"""Leaves out what schemathesis would take for a fault of the service and is none."""

import schemathesis

# A request with a shorter timeout than this may get 504 on a busy machine.
SHORT_MS = 5_000


@schemathesis.hook
def filter_case(context, case):
    headers = case.headers or {}
    timeout = str(headers.get("connect-timeout-ms", ""))
    is_short = timeout.isascii() and timeout.isdigit() and 0 < int(timeout) < SHORT_MS
    # Unknown headers are legal in HTTP.
    return not is_short and "x-schemathesis-unknown-property" not in headers
