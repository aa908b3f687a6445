"""An agent of `a2a-sdk` on its store in memory: a task that is working, has an artifact, and is completed."""

import asyncio
import os
import socket
import sys
import threading

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers.default_request_handler_v2 import DefaultRequestHandlerV2
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part, Task, TaskState, TaskStatus
from starlette.applications import Starlette


class Answering(AgentExecutor):
    async def execute(self, context, event_queue):
        task = Task(id=context.task_id, context_id=context.context_id, history=[context.message],
                    status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        await updater.add_artifact([Part(text="Hello!")], name="answer")
        await updater.complete()

    async def cancel(self, context, event_queue):
        pass


card = AgentCard(
    name="bench", description="Answers", version="1", capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"], default_output_modes=["text/plain"],
    supported_interfaces=[AgentInterface(url="http://localhost/a2a", protocol_binding="JSONRPC", protocol_version="1.0")],
)
handler = DefaultRequestHandlerV2(agent_executor=Answering(), task_store=InMemoryTaskStore(), agent_card=card)
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
app = Starlette(routes=create_jsonrpc_routes(handler, "/a2a"))
asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener]))
