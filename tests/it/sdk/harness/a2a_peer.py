"""An A2A peer made with `a2a-sdk`: it shouts back what it is told.

Prints the address of its card, ends with its standard input."""

import asyncio
import socket
import sys
import threading

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role
from starlette.applications import Starlette


class Shout(AgentExecutor):
    async def execute(self, context, event_queue):
        text = context.get_user_input()
        if text == "fail":
            raise RuntimeError("the peer has lost its voice")
        reply = Message(role=Role.ROLE_AGENT, message_id="reply", parts=[Part(text=text.upper())])
        await event_queue.enqueue_event(reply)

    async def cancel(self, context, event_queue):
        raise NotImplementedError


def card(url):
    return AgentCard(
        name="Shouter",
        description="Says it louder",
        version="1.0.0",
        # 0.3 is what the SDKs under test speak.
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="0.3")],
        capabilities=AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="shout", name="shout", description="Upper case", tags=["text"])],
    )


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    described = card(url)
    handler = DefaultRequestHandler(agent_executor=Shout(), task_store=InMemoryTaskStore(), agent_card=described)
    routes = create_agent_card_routes(described) + create_jsonrpc_routes(handler, rpc_url="/", enable_v0_3_compat=True)
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="critical"))

    def leash():
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=leash, daemon=True).start()
    # The listener takes connections from now on; they wait until the server accepts them.
    print(f"{url}.well-known/agent-card.json", flush=True)
    asyncio.run(server.serve(sockets=[listener]))


main()
