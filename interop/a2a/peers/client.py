"""A conversation with client tools through the official Python SDK: `client.py <base URL of the server>`."""

import asyncio
import sys

from a2a.client import ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import GetTaskRequest, SendMessageRequest, TaskState
from google.protobuf.json_format import MessageToDict, ParseDict

URI = "https://bosun.dev/a2a/extensions/client-tools/v1"
CALCULATOR = {
    "name": "calculator",
    "description": "Evaluates an arithmetic expression",
    "parameters": {
        "type": "object",
        "properties": {"expression": {"type": "string"}},
        "required": ["expression"],
    },
}


async def send(client, request):
    """Sends a message and returns the task as it is afterwards."""
    task = None
    async for event in client.send_message(ParseDict(request, SendMessageRequest())):
        if event.HasField("task"):
            task = event.task.id
        elif event.HasField("status_update"):
            task = event.status_update.task_id
    return await client.get_task(GetTaskRequest(id=task))


async def converse(server, streaming, binding):
    config = ClientConfig(streaming=streaming, supported_protocol_bindings=[binding])
    client = await ClientFactory(config).create_from_url(server)
    task = await send(client, {
        "message": {
            "messageId": f"python-{streaming}-{binding}-1",
            "role": "ROLE_USER",
            "extensions": [URI],
            "parts": [{"text": "What is 25% of 8,432?"}],
        },
        "metadata": {URI: {"tools": [CALCULATOR]}},
    })
    assert task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED, task
    parts = MessageToDict(task.status.message)["parts"]
    [call] = next(part["data"]["toolCalls"] for part in parts if "data" in part)
    assert call["function"] == {"name": "calculator", "arguments": {"expression": "0.25 * 8432"}}, call
    result = {"toolCallId": call["id"], "toolName": "calculator", "success": True, "result": "2108"}
    done = await send(client, {
        "message": {
            "messageId": f"python-{streaming}-{binding}-2",
            "role": "ROLE_USER",
            "taskId": task.id,
            "contextId": task.context_id,
            "extensions": [URI],
            "parts": [{"data": {"toolResults": [result]}}],
        },
    })
    assert done.status.state == TaskState.TASK_STATE_COMPLETED, done
    return done.artifacts[0].parts[0].text


async def main(server):
    for streaming in (False, True):
        for binding in ("JSONRPC", "HTTP+JSON"):
            print(await converse(server, streaming, binding))


asyncio.run(main(sys.argv[1]))
