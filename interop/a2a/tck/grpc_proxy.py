"""The compatibility kit's way to the server over gRPC: `grpc_proxy.py <port> <server> <kit>`, with the kit's Python.

See kit_messages.py for what it does to messages. Everything else is forwarded as bytes.
"""

import sys
from concurrent import futures

import grpc

import kit_messages

PORT, SERVER, KIT = int(sys.argv[1]), sys.argv[2], sys.argv[3]
sys.path.insert(0, KIT)
from specification.generated import a2a_pb2  # noqa: E402

CHANNEL = grpc.insecure_channel(SERVER)
STREAMS = ("SendStreamingMessage", "SubscribeToTask")
ANSWERS = {"SendMessage": a2a_pb2.SendMessageResponse, "GetTask": a2a_pb2.Task, "CancelTask": a2a_pb2.Task}


def named(method, request):
    """The request with the message's id in its first text, a number behind the id, and the message's agent."""
    if method not in ("SendMessage", "SendStreamingMessage"):
        return request
    parsed = a2a_pb2.SendMessageRequest.FromString(request)
    message = parsed.message
    if not message.message_id:
        return request
    message_id = message.message_id
    message.message_id = kit_messages.unique(message_id)
    agent = kit_messages.agent_of(message_id)
    if agent:
        parsed.tenant = f"default/{agent}"
    for part in message.parts:
        if part.HasField("text"):
            part.text = f"{message_id}: {part.text}"
            break
    return parsed.SerializeToString()


def shown(method, answer):
    """The answer without what was put in front of texts: those are in the history."""
    kind = ANSWERS.get(method)
    if not kind:
        return answer
    parsed = kind.FromString(answer)
    task = parsed.task if method == "SendMessage" and parsed.HasField("task") else parsed
    for message in getattr(task, "history", []):
        for part in message.parts:
            if part.text.startswith(("tck-", "test-")) and ": " in part.text:
                part.text = part.text.split(": ", 1)[1]
    return parsed.SerializeToString()


class Forward(grpc.GenericRpcHandler):
    def service(self, details):
        method = details.method.rsplit("/", 1)[-1]
        metadata = [(key, value) for key, value in details.invocation_metadata if key.startswith(("a2a-", "auth"))]

        def fail(context, error):
            context.set_trailing_metadata(error.trailing_metadata() or ())
            context.abort(error.code(), error.details())

        def unary(request, context):
            try:
                return shown(method, CHANNEL.unary_unary(details.method)(named(method, request), metadata=metadata))
            except grpc.RpcError as error:
                fail(context, error)

        def stream(request, context):
            try:
                call = CHANNEL.unary_stream(details.method)(named(method, request), metadata=metadata)
                context.add_callback(call.cancel)
                # The kit compares the bytes of two streams (test_multi_stream.py, `_normalize_event`), and the order of a
                # map's entries is not part of a message.
                for event in call:
                    yield a2a_pb2.StreamResponse.FromString(event).SerializeToString(deterministic=True)
            except grpc.RpcError as error:
                fail(context, error)

        if method in STREAMS:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


server = grpc.server(futures.ThreadPoolExecutor(32))
server.add_generic_rpc_handlers((Forward(),))
server.add_insecure_port(f"127.0.0.1:{PORT}")
server.start()
server.wait_for_termination()
