"""The cycle of the bench, by LangGraph for Python with its SQLite saver: start, pause in a tool, resume, finish.

python cycle.py DATABASE SECONDS CONCURRENCY...   prints one line of JSON for each concurrency.
In one process, without HTTP; the model is a function. The saver decides how durable a commit is, and says so in
`synchronous`; `rows` is what it keeps of one cycle. The asynchronous saver is used throughout: the other one cannot
run cycles at the same time.
"""

import asyncio
import json
import math
import sys
import time

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

WARM_UP = 50


@tool
def calculator(expression: str) -> str:
    "Perform mathematical calculations"
    return str(interrupt({"expression": expression}))


def model(messages):
    last = messages[-1]
    if last.type == "tool":
        return AIMessage(f"25% of 8,432 is {last.content}")
    call = {"id": "call_1", "name": "calculator", "args": {"expression": "0.25 * 8432"}, "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


async def agent(state):
    return {"messages": [model(state["messages"])]}


def build(saver):
    graph = StateGraph(MessagesState)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode([calculator], handle_tool_errors=False))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", lambda state: "tools" if state["messages"][-1].tool_calls else END, ["tools", END])
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


class Cycles:
    def __init__(self, saver):
        self.saver, self.graph, self.threads = saver, build(saver), 0

    async def run(self):
        self.threads += 1
        thread = {"configurable": {"thread_id": f"thread-{self.threads}"}}
        question = {"messages": [{"role": "user", "content": "What is 25% of 8,432?"}]}
        paused = await self.graph.ainvoke(question, thread)
        assert "__interrupt__" in paused, "the graph did not pause"
        finished = await self.graph.ainvoke(Command(resume="2108"), thread)
        assert finished["messages"][-1].content == "25% of 8,432 is 2108", "the graph ended otherwise"

    async def measure(self, concurrency, seconds):
        times = []
        processor, begun = time.process_time(), time.perf_counter()

        async def client():
            while time.perf_counter() - begun < seconds:
                start = time.perf_counter()
                await self.run()
                times.append(time.perf_counter() - start)

        await asyncio.gather(*(client() for _ in range(concurrency)))
        wall, processor = time.perf_counter() - begun, time.process_time() - processor
        times.sort()
        quantile = lambda share: times[min(len(times), math.ceil(len(times) * share)) - 1] * 1e6
        return {
            "concurrency": concurrency,
            "cycles": len(times),
            "per_second": len(times) / wall,
            "p50_us": quantile(0.5),
            "p99_us": quantile(0.99),
            "cpu_us": processor * 1e6 / len(times),
        }

    async def value(self, statement):
        async with self.saver.conn.execute(statement) as cursor:
            return (await cursor.fetchone())[0]


async def main(database, seconds, concurrencies):
    async with AsyncSqliteSaver.from_conn_string(database) as saver:
        cycles = Cycles(saver)
        for _ in range(WARM_UP):
            await cycles.run()
        count = lambda table: cycles.value(f"SELECT count(*) FROM {table}")
        rows = {table: await count(table) / WARM_UP for table in ("checkpoints", "writes")}
        synchronous = ["OFF", "NORMAL", "FULL", "EXTRA"][await cycles.value("PRAGMA synchronous")]
        for concurrency in concurrencies:
            figures = await cycles.measure(concurrency, seconds)
            print(json.dumps({**figures, "synchronous": synchronous, "rows": rows}), flush=True)


asyncio.run(main(sys.argv[1], float(sys.argv[2]), [int(word) for word in sys.argv[3:]]))
