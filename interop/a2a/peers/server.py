"""An agent on the official Python SDK, for the client side of Bosun. usage: server.py [--v03]

It asks which city is meant, and completes its task with the answer. It prints its address, and serves until it is killed.
"""

import socket
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Task, TaskState, TaskStatus
from starlette.applications import Starlette


class Forecaster(AgentExecutor):
    async def execute(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        if context.current_task is None:
            submitted = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            task = Task(id=context.task_id, context_id=context.context_id, status=submitted, history=[context.message])
            await event_queue.enqueue_event(task)
            question = updater.new_agent_message([Part(text="Which city?")])
            await updater.requires_input(question)
            return
        await updater.start_work()
        await updater.add_artifact([Part(text=f"Sunny in {context.get_user_input()}")])
        await updater.complete()

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def main():
    is_older = "--v03" in sys.argv
    binding = next((arg for arg in sys.argv[1:] if not arg.startswith("--")), "JSONRPC")
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    version = "0.3" if is_older else "1.0"
    card = AgentCard(
        name="Forecaster",
        description="Knows the weather",
        version="1.0.0",
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        supported_interfaces=[AgentInterface(url=f"{base}/rpc", protocol_binding=binding, protocol_version=version)],
        skills=[AgentSkill(id="forecast", name="Forecast", description="A forecast", tags=["weather"])],
    )
    handler = DefaultRequestHandler(agent_executor=Forecaster(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card)
    if binding == "JSONRPC":
        routes += create_jsonrpc_routes(handler, "/rpc", enable_v0_3_compat=is_older)
    else:
        routes += create_rest_routes(handler, path_prefix="/rpc")
    print(base, flush=True)
    uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run(sockets=[listener])


main()
