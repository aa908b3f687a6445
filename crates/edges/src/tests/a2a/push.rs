//! Push notifications that fail.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use bosun_core::{
    Timestamp,
    audit::{Action, AuditRecord},
    ceiling::PUSH_ATTEMPTS,
};
use bosun_engine::{
    Store as _,
    store::{Webhook, WebhookChange, WebhookProgress, Webhooks as _},
    testing::{ScriptedModel, ScriptedTurn},
    webhook::{PostWebhooks, WebhookPost},
};
use serde_json::json;

use super::{call, message};
use crate::{AppState, ErrorMapping, auth::Access, deliver_notifications, tests::world::TestServer};

/// A receiver that fails at first.
#[derive(Debug, Default)]
struct Failing {
    failures: usize,
    attempts: AtomicUsize,
    received: Mutex<Vec<String>>,
}

#[async_trait]
impl PostWebhooks for Failing {
    fn check(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    async fn post(&self, post: &WebhookPost) -> Result<u16, String> {
        if self.attempts.fetch_add(1, Ordering::SeqCst) < self.failures {
            return Err("there is no connection".to_owned());
        }
        self.received.lock().unwrap().push(post.body.clone());
        Ok(200)
    }
}

/// A cancelled task with a webhook that has seen nothing but its creation, and how many webhooks are left when nothing
/// more is due.
async fn deliver(failures: usize) -> (Arc<Failing>, usize) {
    let world = TestServer::new(ScriptedModel::always(vec![ScriptedTurn::default().hanging()])).await;
    let params = json!({"message": message("m1", "Hi"), "configuration": {"returnImmediately": true}});
    let task = call(&world, "SendMessage", params).await["task"].clone();
    call(&world, "CancelTask", json!({"id": task["id"]})).await;
    let name = task["id"].as_str().unwrap().parse().unwrap();
    let head = world.store.load(&"default".parse().unwrap(), &name).await.unwrap().unwrap().head;
    let record = Box::new(AuditRecord::of_webhook(&head, Timestamp(0), Action::WebhookSet, None, "w"));
    let webhook = Webhook {
        namespace: head.namespace.clone(),
        name,
        query: head.uid,
        id: "w".into(),
        target: json!({"url": "https://hooks.example"}).to_string(),
        progress: WebhookProgress { seq: 1, attempts: 0, next_at: Timestamp(0) },
    };
    assert!(world.store.change_webhook(WebhookChange::Put { webhook, at_most: 1, record }).await.unwrap());
    let poster = Arc::new(Failing { failures, ..Failing::default() });
    let (engine, reload) = (world.engine.clone(), Arc::new(world.engine.clone()));
    let app = AppState::with_reload(
        engine,
        Access::open(),
        Vec::new(),
        reload,
        ErrorMapping::default(),
        Some(Arc::clone(&poster) as _),
    );
    let left = async || world.store.webhooks(&head.namespace, head.uid).await.unwrap().len();
    // Time is paused: it passes only while all of this waits.
    let settled = async {
        while left().await > 0 {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = deliver_notifications(app) => unreachable!("the server is not draining"),
        () = settled => {}
    }
    (poster, left().await)
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_is_tried_again_until_it_has_everything() {
    let (poster, _) = deliver(PUSH_ATTEMPTS - 1).await;
    let received = poster.received.lock().unwrap().clone();
    assert!(received.last().is_some_and(|body| body.contains("TASK_STATE_CANCELED")), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_always_fails_loses_its_webhook_after_the_last_attempt() {
    let (poster, _) = deliver(usize::MAX).await;
    assert_eq!(poster.attempts.load(Ordering::SeqCst), PUSH_ATTEMPTS);
}
