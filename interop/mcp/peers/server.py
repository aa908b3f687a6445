"""A server of the official Python SDK, over standard input and output or streamable HTTP."""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("python-peer")


@server.tool()
def word_count(text_to_count: str) -> int:
    """Counts the words of a text."""
    return len(text_to_count.split())


@server.tool()
def fail(reason: str) -> str:
    """Fails with a reason."""
    raise ValueError(reason)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="streamable-http", port=int(sys.argv[1]))
    else:
        server.run(transport="stdio")
