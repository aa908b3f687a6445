"""What the kit's message ids mean, for the proxies.

The kit tells an agent what to do by the prefix of a message's id, which no model sees, so the proxies put the id in
front of the text; answers do not show what was put there. Some prefixes need an agent of another kind. The kit
also sends several messages under one id; here a message id is an idempotency key, and the second one would be a replay.
"""

import itertools
import os

NUMBERS = itertools.count()
# The agents that are not the default one, by the prefix of the message that is for them.
AGENTS = {
    "tck-artifact-data": "tck-data",
    "tck-message-response": "tck-message",
    # A file that the kit calls unsupported, and whose success it then requires (tck/requirements/core_operations.py,
    # CORE-SEND-003 has no `expected_error`): this agent takes it.
    "tck-send-003": "tck-files",
}


def unique(message_id):
    """The id with the process and a number behind it: each proxy counts by itself."""
    return f"{message_id}-{os.getpid()}-{next(NUMBERS)}"


def agent_of(message_id):
    """The agent that a message is for; none is the default one."""
    return next((agent for prefix, agent in AGENTS.items() if message_id.startswith(prefix)), None)
