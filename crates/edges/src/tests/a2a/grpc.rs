//! The service over a real connection, with the client that the protocol's own crate generates.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use a2a_pb::proto::{self as pb, a2a_service_client::A2aServiceClient};
use bosun_engine::testing::{ScriptedModel, ScriptedTurn};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status, transport::Channel};
use tonic_types::StatusExt as _;

use crate::{
    AppState, ConnectionLimits, ErrorMapping,
    auth::Access,
    tests::{
        a2a::TOOLS,
        authorization::{keys, policy},
        world::{TestServer, calculating},
    },
};

const MATH: &str = "default/math-assistant";
const MAX_CONNECTIONS: usize = 8;

/// A server of gRPC on this machine.
struct GrpcServer {
    address: SocketAddr,
    stopping: CancellationToken,
    served: JoinHandle<()>,
    world: TestServer,
}

impl GrpcServer {
    async fn start(model: ScriptedModel, mapping: ErrorMapping) -> Self {
        let world = TestServer::new(model).await;
        Self::serve(world, Access::open(), mapping).await
    }

    async fn serve(world: TestServer, access: Access, mapping: ErrorMapping) -> Self {
        let (engine, reload) = (world.engine.clone(), Arc::new(world.engine.clone()));
        let app = AppState::with_reload(engine, access, Vec::new(), reload, mapping, None);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stopping) = (listener.local_addr().unwrap(), CancellationToken::new());
        app.announce_grpc(address.port());
        let limits = ConnectionLimits { max_connections: MAX_CONNECTIONS, grace: Duration::from_secs(5) };
        let ended = stopping.clone();
        let served = async move {
            crate::serve_grpc(listener, crate::grpc_router(app), ended.cancelled(), limits).await;
        };
        let served = tokio_util::task::TaskTracker::new().spawn(served);
        Self { address, stopping, served, world }
    }

    async fn client(&self) -> A2aServiceClient<Channel> {
        A2aServiceClient::connect(format!("http://{}", self.address)).await.unwrap()
    }
}

fn message(id: &str, text: &str) -> pb::SendMessageRequest {
    let message = pb::Message {
        message_id: id.into(),
        role: pb::Role::User.into(),
        parts: vec![text_part(text)],
        ..pb::Message::default()
    };
    pb::SendMessageRequest { message: Some(message), ..pb::SendMessageRequest::default() }
}

fn text_part(text: &str) -> pb::Part {
    pb::Part { content: Some(pb::part::Content::Text(text.into())), ..pb::Part::default() }
}

/// A request in the JSON form of its messages.
fn request_of(asked: serde_json::Value) -> pb::SendMessageRequest {
    let asked: a2a_pb::protojson::SendMessageRequest = serde_json::from_value(asked).unwrap();
    prost::Message::decode(&*prost::Message::encode_to_vec(&asked)).unwrap()
}

fn parts(parts: &serde_json::Value) -> Vec<pb::Part> {
    request_of(serde_json::json!({"message": {"messageId": "m", "parts": parts}})).message.unwrap().parts
}

fn with_version<T>(message: T, version: &'static str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("a2a-version", version.parse().unwrap());
    request
}

fn task(response: pb::SendMessageResponse) -> pb::Task {
    match response.payload {
        Some(pb::send_message_response::Payload::Task(task)) => task,
        other => panic!("{other:?}"),
    }
}

/// The code and the reason of a refusal.
fn fault(status: &Status) -> (Code, String) {
    let info = status.get_details_error_info();
    (status.code(), info.map(|info| info.reason).unwrap_or_default())
}

fn text(part: &pb::Part) -> &str {
    match &part.content {
        Some(pb::part::Content::Text(text)) => text,
        _ => "",
    }
}

#[tokio::test]
async fn a_task_is_sent_read_listed_and_cancelled_as_over_the_other_bindings() {
    let script = ScriptedModel::default()
        .on("Hi", vec![ScriptedTurn::say("Hello!")])
        .on("Wait", vec![ScriptedTurn::call("ask_client", &serde_json::json!({})), ScriptedTurn::say("Thanks.")]);
    let server = GrpcServer::start(script, ErrorMapping::default()).await;
    let mut client = server.client().await;
    let sent = task(client.send_message(with_version(message("m1", "Hi"), "1.0")).await.unwrap().into_inner());
    assert_eq!(sent.status.as_ref().unwrap().state, i32::from(pb::TaskState::Completed));
    assert_eq!(text(&sent.artifacts[0].parts[0]), "Hello!");
    let read = client.get_task(pb::GetTaskRequest { id: sent.id.clone(), ..Default::default() }).await.unwrap();
    assert_eq!(read.into_inner(), sent);
    let listed = client.list_tasks(pb::ListTasksRequest::default()).await.unwrap().into_inner();
    assert_eq!((listed.total_size, listed.tasks[0].id.as_str()), (1, sent.id.as_str()));
    assert_eq!(server.world.get(&format!("/v1/queries/{}", sent.id)).await.ok()["state"], "completed");
    // An agent that is not the default one is the tenant.
    let waiting = pb::SendMessageRequest { tenant: "default/messenger".into(), ..message("m2", "Wait") };
    let waiting = task(client.send_message(waiting).await.unwrap().into_inner());
    assert_eq!(waiting.status.as_ref().unwrap().state, i32::from(pb::TaskState::InputRequired));
    let named =
        |tenant: &str| pb::CancelTaskRequest { id: waiting.id.clone(), tenant: tenant.into(), ..Default::default() };
    assert_eq!(client.cancel_task(named(MATH)).await.unwrap_err().code(), Code::NotFound);
    let cancelled = client.cancel_task(named("default/messenger")).await.unwrap().into_inner();
    assert_eq!(cancelled.status.unwrap().state, i32::from(pb::TaskState::Canceled));
    let again = client.cancel_task(named("default/messenger")).await.unwrap_err();
    assert_eq!(fault(&again), (Code::FailedPrecondition, "TASK_NOT_CANCELABLE".to_owned()));
}

#[tokio::test]
async fn a_stream_is_a_snapshot_then_updates_and_brings_client_tools() {
    let server = GrpcServer::start(calculating(), ErrorMapping::default()).await;
    let mut client = server.client().await;
    let tools = serde_json::json!({TOOLS: {"tools": [{
        "name": "calculator", "description": "Calculates",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
    }]}});
    let asked = serde_json::json!({
        "message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "What is 25% of 8,432?"}]},
        "metadata": tools,
    });
    let mut request = with_version(request_of(asked), "1.0");
    request.metadata_mut().insert("a2a-extensions", TOOLS.parse().unwrap());
    let response = client.send_streaming_message(request).await.unwrap();
    assert_eq!(response.metadata().get("a2a-extensions").unwrap(), TOOLS);
    let mut events = response.into_inner();
    let first = events.message().await.unwrap().unwrap();
    assert!(matches!(first.payload, Some(pb::stream_response::Payload::Task(_))), "{first:?}");
    let mut last = first;
    while let Some(event) = events.message().await.unwrap() {
        last = event;
    }
    let Some(pb::stream_response::Payload::StatusUpdate(update)) = last.payload else { panic!("{last:?}") };
    let status = update.status.unwrap();
    assert_eq!(status.state, i32::from(pb::TaskState::InputRequired));
    assert_eq!(status.message.unwrap().parts.len(), 2, "a text for people and the calls");
}

#[tokio::test]
async fn a_refusal_has_its_code_and_its_details_in_both_editions() {
    for (mapping, unsupported) in
        [(ErrorMapping::V1_0_0, Code::Unimplemented), (ErrorMapping::V1_0_1, Code::FailedPrecondition)]
    {
        let server = GrpcServer::start(calculating(), mapping).await;
        let mut client = server.client().await;
        let get = |id: &str| pb::GetTaskRequest { id: id.into(), ..Default::default() };
        let missing = client.get_task(get("gone")).await.unwrap_err();
        assert_eq!(fault(&missing), (Code::NotFound, "TASK_NOT_FOUND".to_owned()));
        assert_eq!(missing.get_details_error_info().unwrap().domain, "a2a-protocol.org");
        for version in ["0.3", "99.0"] {
            let refused = client.get_task(with_version(get("gone"), version)).await.unwrap_err();
            assert_eq!(fault(&refused), (unsupported, "VERSION_NOT_SUPPORTED".to_owned()));
        }
        let empty = client.send_message(message("", "")).await.unwrap_err();
        assert_eq!(empty.code(), Code::InvalidArgument);
        let fields = empty.get_details_bad_request().unwrap().field_violations;
        assert!(fields.iter().any(|violation| violation.field == "message.messageId"), "{fields:?}");
        let pushed = client.list_task_push_notification_configs(pb::ListTaskPushNotificationConfigsRequest::default());
        assert_eq!(fault(&pushed.await.unwrap_err()), (unsupported, "PUSH_NOTIFICATION_NOT_SUPPORTED".to_owned()));
        for tenant in ["math-assistant", "UPPER/x", "default/gone"] {
            let asked = pb::SendMessageRequest { tenant: tenant.into(), ..message("m", "Hi") };
            let refused = client.send_message(asked).await.unwrap_err();
            let expect = if tenant == "default/gone" { Code::NotFound } else { Code::InvalidArgument };
            assert_eq!(refused.code(), expect, "{tenant}: {refused}");
        }
        let large = client.send_message(message("m", &"x".repeat(2 << 20))).await.unwrap_err();
        assert_eq!(fault(&large), (Code::InvalidArgument, "PAYLOAD_TOO_LARGE".to_owned()));
    }
}

#[tokio::test]
async fn a_caller_needs_a_key_and_its_rights() {
    let sent = policy(keys());
    let world = TestServer::new(calculating()).await;
    let access = Access::new(sent.subscribe(), Arc::clone(&world.clock) as _, Arc::default());
    let server = GrpcServer::serve(world, access, ErrorMapping::default()).await;
    let mut client = server.client().await;
    let refused = client.list_tasks(pb::ListTasksRequest::default()).await.unwrap_err();
    assert_eq!(fault(&refused), (Code::Unauthenticated, "UNAUTHORIZED".to_owned()));
    let keyed = |key: &str, tenant: &str| {
        let mut request = Request::new(pb::ListTasksRequest { tenant: tenant.into(), ..Default::default() });
        request.metadata_mut().insert("authorization", format!("Bearer sk-{key}").parse().unwrap());
        request
    };
    assert_eq!(client.list_tasks(keyed("only-read", "")).await.unwrap().into_inner().total_size, 0);
    let refused = client.list_tasks(keyed("without-read", "")).await.unwrap_err();
    assert_eq!(fault(&refused), (Code::PermissionDenied, "RIGHT_MISSING".to_owned()));
    let refused = client.list_tasks(keyed("own", "other/math-assistant")).await.unwrap_err();
    assert_eq!(fault(&refused), (Code::PermissionDenied, "NAMESPACE_FORBIDDEN".to_owned()));
    client.list_tasks(keyed("both", "other/math-assistant")).await.unwrap();
}

/// Its client knows the address of gRPC alone, and the other bindings are at another port.
#[tokio::test]
async fn the_extended_card_lists_the_interface_where_its_client_is() {
    let sent = policy(keys());
    let world = TestServer::new(calculating()).await;
    let access = Access::new(sent.subscribe(), Arc::clone(&world.clock) as _, Arc::default());
    let server = GrpcServer::serve(world, access, ErrorMapping::default()).await;
    let mut request = Request::new(pb::GetExtendedAgentCardRequest { tenant: MATH.into() });
    request.metadata_mut().insert("authorization", "Bearer sk-own".parse().unwrap());
    let card = server.client().await.get_extended_agent_card(request).await.unwrap().into_inner();
    let [interface] = &card.supported_interfaces[..] else { panic!("{:?}", card.supported_interfaces) };
    assert_eq!((interface.url.as_str(), interface.protocol_binding.as_str()), (&*server.address.to_string(), "GRPC"));
    assert_eq!(interface.tenant, MATH);
    assert_eq!(card.security_schemes.len(), 2, "{:?}", card.security_schemes);
}

/// The worst that fits into a request, in every place of a message that grows when it is read: a refusal that says why, or
/// an answer, and the next request is served.
#[tokio::test]
async fn the_worst_megabyte_is_refused_or_answered() {
    const MIB: usize = 1 << 20;
    let server =
        GrpcServer::start(ScriptedModel::always(vec![ScriptedTurn::say("Hello!")]), ErrorMapping::default()).await;
    let mut client = server.client().await;
    let with = |id: &str, change: &dyn Fn(&mut pb::Message)| {
        let mut asked = message(id, "Hi");
        asked.message.as_mut().into_iter().for_each(change);
        asked
    };
    let part = |data: serde_json::Value| parts(&serde_json::json!([{ "data": data }]));
    let members: serde_json::Map<_, _> = (0..MIB / 16).map(|key| (key.to_string(), true.into())).collect();
    let size = Code::InvalidArgument;
    for (name, asked, expect) in [
        ("parts", with("a", &|message| message.parts = vec![pb::Part::default(); MIB / 2 - 64]), Some(size)),
        ("a text", with("b", &|message| message.parts[0] = text_part(&"x".repeat(MIB - 128))), None),
        (
            "control characters",
            with("c", &|message| message.parts[0] = text_part(&"\u{1}".repeat(MIB - 128))),
            Some(size),
        ),
        (
            "values",
            with("d", &|message| message.parts = part(vec![serde_json::Value::Null; MIB / 4 - 64].into())),
            Some(size),
        ),
        ("members", with("f", &|message| message.parts = part(members.clone().into())), None),
        ("extensions", with("g", &|message| message.extensions = vec![String::new(); MIB / 2 - 64]), Some(size)),
        ("an id", with("h", &|message| message.message_id = "x".repeat(MIB - 128)), Some(size)),
        ("a task", with("i", &|message| message.task_id = "x".repeat(MIB - 128)), Some(Code::NotFound)),
    ] {
        assert!(prost::Message::encoded_len(&asked) <= MIB, "{name}");
        let answered = client.send_message(asked).await;
        assert_eq!(answered.as_ref().err().map(Status::code), expect, "{name}: {:.300}", format!("{answered:?}"));
        // They are counted, and not read: the limits of a body would refuse them only after that.
        let is_counted = answered.is_err_and(|status| status.message().ends_with(" are the most"));
        assert_eq!(is_counted, name == "parts", "{name}");
    }
    let id = "x".repeat(MIB - 128);
    let read = pb::GetTaskRequest { id: id.clone(), ..Default::default() };
    assert_eq!(client.get_task(read).await.unwrap_err().code(), Code::NotFound);
    let cancelled = pb::CancelTaskRequest { id: id.clone(), ..Default::default() };
    assert_eq!(client.cancel_task(cancelled).await.unwrap_err().code(), Code::NotFound);
    let listed = pb::ListTasksRequest { context_id: id.clone(), ..Default::default() };
    assert_eq!(client.list_tasks(listed).await.unwrap().into_inner().total_size, 0);
    let watched = pb::SubscribeToTaskRequest { id, ..Default::default() };
    assert_eq!(client.subscribe_to_task(watched).await.unwrap_err().code(), Code::NotFound);
    client.send_message(message("last", "Hi")).await.unwrap();
}

#[tokio::test]
async fn a_full_house_closes_further_connections_until_one_leaves() {
    let server =
        GrpcServer::start(ScriptedModel::always(vec![ScriptedTurn::say("Hello!")]), ErrorMapping::default()).await;
    let mut clients = Vec::new();
    for number in 0..MAX_CONNECTIONS {
        let mut client = server.client().await;
        client.send_message(message(&format!("m{number}"), "Hi")).await.unwrap();
        clients.push(client);
    }
    let list = async |mut client: A2aServiceClient<Channel>| client.list_tasks(pb::ListTasksRequest::default()).await;
    let refused = match A2aServiceClient::connect(format!("http://{}", server.address)).await {
        Ok(client) => list(client).await.is_err(),
        Err(_) => true,
    };
    assert!(refused, "there is no permit for it");
    // Many requests of one connection share its permit.
    let many = futures_util::future::join_all((0..200).map(|_| list(clients[0].clone()))).await;
    assert!(many.iter().all(Result::is_ok));
    clients.pop();
    loop {
        let Ok(client) = A2aServiceClient::connect(format!("http://{}", server.address)).await else { continue };
        if list(client).await.is_ok() {
            break;
        }
    }
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_and_says_so() {
    let script = vec![ScriptedTurn::call("ask_client", &serde_json::json!({})), ScriptedTurn::say("Thanks.")];
    let server = GrpcServer::start(ScriptedModel::always(script), ErrorMapping::default()).await;
    let mut client = server.client().await;
    let asked = pb::SendMessageRequest { tenant: "default/messenger".into(), ..message("m1", "Wait") };
    let waiting = task(client.send_message(asked).await.unwrap().into_inner());
    let subscribe = pb::SubscribeToTaskRequest { id: waiting.id, tenant: "default/messenger".into() };
    let mut events = client.subscribe_to_task(subscribe).await.unwrap().into_inner();
    events.message().await.unwrap().expect("the snapshot");
    server.stopping.cancel();
    server.world.engine.drain(Duration::from_secs(1)).await;
    assert_eq!(events.message().await.unwrap_err().code(), Code::Unavailable);
    server.served.await.unwrap();
}
