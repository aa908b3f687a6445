//! An agent of `a2a-server-lf` on its store in memory: a task that is working, has an artifact, and is completed.

use std::sync::Arc;

use a2a::{
    A2AError, Artifact, Part, StreamResponse, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus,
    TaskStatusUpdateEvent, new_artifact_id,
};
use a2a_server::{AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore};
use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::io::AsyncReadExt as _;

/// The allocator of the server that it is compared with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

struct Answering;

fn status(state: TaskState) -> TaskStatus {
    TaskStatus { state, message: None, timestamp: Some(chrono::Utc::now()) }
}

impl AgentExecutor for Answering {
    fn execute(&self, asked: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        let (task_id, context_id) = asked.task_info();
        let task = Task {
            id: task_id.clone(),
            context_id: context_id.clone(),
            status: status(TaskState::Submitted),
            artifacts: None,
            history: asked.message.map(|message| vec![message]),
            metadata: None,
        };
        let update = |state| {
            StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
                task_id: task_id.clone(),
                context_id: context_id.clone(),
                status: status(state),
                metadata: None,
            })
        };
        let artifact = Artifact {
            artifact_id: new_artifact_id(),
            name: Some("answer".to_owned()),
            description: None,
            parts: vec![Part::text("Hello!")],
            metadata: None,
            extensions: None,
        };
        let answer = StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: task_id.clone(),
            context_id: context_id.clone(),
            artifact,
            append: Some(false),
            last_chunk: Some(true),
            metadata: None,
        });
        let events =
            [StreamResponse::Task(task), update(TaskState::Working), answer, update(TaskState::Completed)];
        stream::iter(events.map(Ok)).boxed()
    }

    fn cancel(&self, _: ExecutorContext) -> BoxStream<'static, Result<StreamResponse, A2AError>> {
        stream::empty().boxed()
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> std::io::Result<()> {
    let handler = Arc::new(DefaultRequestHandler::new(Answering, InMemoryTaskStore::new()));
    let router = axum::Router::new().nest("/a2a", a2a_server::jsonrpc::jsonrpc_router(handler));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on http://{}", listener.local_addr()?);
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        let _ = stream.set_nodelay(true);
    });
    let mut rest = Vec::new();
    tokio::select! {
        served = axum::serve(listener, router) => served,
        ended = async { tokio::io::stdin().read_to_end(&mut rest).await } => ended.map(drop),
    }
}
