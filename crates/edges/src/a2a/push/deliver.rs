//! The delivery of push notifications.
//!
//! One task per server looks for webhooks whose query has entries after their cursor, and posts the events of these
//! entries in order, one request at a time for each webhook. The cursor moves when an entry was acknowledged, so after a
//! crash the last events may be posted again and none is lost. A receiver that fails is tried again with exponential
//! backoff, and its webhook is deleted after [`PUSH_ATTEMPTS`] attempts.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bosun_core::{
    Head, Namespace, Seq,
    audit::{Action, AuditRecord},
    ceiling::{EVENT_BYTES, PUSH_ATTEMPTS},
};
use bosun_engine::{
    store::{StoreError, Stored, Webhook, WebhookChange, WebhookKey, WebhookProgress},
    webhook::{PostWebhooks, WebhookPost},
};
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::{Value, json};

use super::PushTarget;
use crate::{
    AppState,
    a2a::{
        negotiate::Generation,
        stream,
        task::{self, Shown},
        v03,
        waiting::OpenWork,
    },
};

/// How often the store is asked for webhooks that are due.
const POLL: Duration = Duration::from_millis(200);
/// Requests at the same time, of all namespaces and of one.
const AT_ONCE: usize = 64;
const AT_ONCE_IN_NAMESPACE: usize = 16;
/// The status with which a receiver ends its webhook.
const GONE: u16 = 410;
/// The first wait after a failure; each further one doubles it.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5 * 60);

/// Posts what happens to tasks, until the engine drains.
pub async fn deliver_notifications(app: AppState) {
    let Some(poster) = app.webhooks.clone() else { return };
    let stopping = app.engine.draining().clone();
    let mut ticks = tokio::time::interval(POLL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut posting, mut busy) = (FuturesUnordered::new(), HashSet::<WebhookKey>::new());
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            Some(done) = posting.next() => {
                busy.remove(&done);
            }
            _ = ticks.tick() => {
                let due = match app.engine.store().due_webhooks(app.engine.now(), 4 * AT_ONCE).await {
                    Ok(due) => due,
                    Err(error) => {
                        tracing::warn!(error = %error, "webhooks cannot be read");
                        continue;
                    }
                };
                for webhook in due {
                    let key = webhook.key();
                    if may_begin(&busy, &key.namespace) && busy.insert(key) {
                        posting.push(deliver(&app, &poster, webhook));
                    }
                }
            }
        }
    }
}

/// Whether another request may begin; no namespace takes all of them.
fn may_begin(busy: &HashSet<WebhookKey>, namespace: &Namespace) -> bool {
    let mut shares = HashMap::<&Namespace, usize>::new();
    busy.iter().for_each(|key| *shares.entry(&key.namespace).or_default() += 1);
    busy.len() < AT_ONCE && shares.get(namespace).is_none_or(|share| *share < AT_ONCE_IN_NAMESPACE)
}

/// Posts what a webhook has not acknowledged yet, and returns its key.
async fn deliver(app: &AppState, poster: &Arc<dyn PostWebhooks>, webhook: Webhook) -> WebhookKey {
    let key = webhook.key();
    if let Err(error) = post_all(app, poster, &webhook).await {
        // It stays due.
        tracing::warn!(error = %error, query = %webhook.name, "a webhook cannot be advanced");
    }
    key
}

async fn post_all(app: &AppState, poster: &Arc<dyn PostWebhooks>, webhook: &Webhook) -> Result<(), StoreError> {
    let store = app.engine.store();
    let change = async |change: WebhookChange| store.change_webhook(change).await.map(drop);
    let remove = |record: Option<AuditRecord>| {
        let record = record.map(Box::new);
        WebhookChange::Remove { key: webhook.key(), record }
    };
    let advance = |progress| WebhookChange::Advance { key: webhook.key(), progress };
    let stored = store.load(&webhook.namespace, &webhook.name).await?;
    let target = serde_json::from_str::<PushTarget>(&webhook.target);
    // The name may belong to another query by now.
    let (Some(stored), Ok(target)) = (stored.filter(|stored| stored.head.uid == webhook.query), target) else {
        return change(remove(None)).await;
    };
    let mut acknowledged = webhook.progress.seq;
    let mut attempts = webhook.progress.attempts;
    for (seq, bodies) in notifications(&stored, webhook.progress.seq, &target) {
        for body in bodies {
            let (failure, is_gone) = match poster.post(&post(&target, &body)).await {
                Ok(200..=299) => continue,
                Ok(status) => (format!("it answers with {status}"), status == GONE),
                Err(why) => (why, false),
            };
            attempts += 1;
            let is_last = is_gone || attempts as usize >= PUSH_ATTEMPTS;
            tracing::info!(query = %webhook.name, attempts, failure, is_last, "a push notification was not delivered");
            if is_last {
                return change(remove(Some(given_up(app, &stored.head, &webhook.id)))).await;
            }
            let next_at = app.engine.now().after(backoff(attempts));
            return change(advance(WebhookProgress { seq: acknowledged, attempts, next_at })).await;
        }
        (acknowledged, attempts) = (seq, 0);
        change(advance(WebhookProgress { seq, attempts: 0, next_at: app.engine.now() })).await?;
    }
    if stored.head.status().is_final() {
        return change(remove(None)).await;
    }
    // Entries without an event need no acknowledgement.
    change(advance(WebhookProgress { seq: stored.head.seq, attempts: 0, next_at: app.engine.now() })).await
}

/// The record of a webhook that is deleted because of its receiver.
fn given_up(app: &AppState, head: &Head, id: &str) -> AuditRecord {
    let record = AuditRecord::of_webhook(head, app.engine.now(), Action::WebhookDeleted, None, id);
    AuditRecord { outcome: Some("receiver_failed".into()), ..record }
}

fn backoff(attempts: u32) -> Duration {
    FIRST_BACKOFF.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX)).min(LONGEST_BACKOFF)
}

/// The entries after `after` that a receiver is notified of, with the bodies to post.
fn notifications(stored: &Stored, after: Seq, target: &PushTarget) -> Vec<(Seq, Vec<String>)> {
    let generation = if target.is_v03 { Generation::V03 } else { Generation::V1 };
    let mut notifications = Vec::new();
    stream::replay(stored, after, |seq, head, transcript, events| {
        let bodies: Vec<Value> = match generation {
            Generation::V1 => events.iter().map(|event| json!(event)).collect(),
            // 0.3 posts the task.
            Generation::V03 => vec![v03::task(
                &task::task(head, transcript, &OpenWork::of(head, transcript, &[]), Shown::all(None)),
                false,
            )],
        };
        // A larger event is not posted: its receiver sees the next status, and reads the task with `GetTask`.
        let bodies = bodies.iter().map(Value::to_string).filter(|body| body.len() <= EVENT_BYTES);
        notifications.push((seq, bodies.collect()));
    });
    notifications
}

fn post(target: &PushTarget, body: &str) -> WebhookPost {
    let media_type = if target.is_v03 { "application/json" } else { "application/a2a+json" };
    let mut headers = vec![("content-type", media_type.to_owned())];
    headers.extend(target.token.clone().map(|token| ("x-a2a-notification-token", token)));
    if let (Some(scheme), Some(credentials)) = (&target.scheme, &target.credentials) {
        headers.push(("authorization", format!("{scheme} {credentials}")));
    }
    WebhookPost { url: target.url.clone(), headers, body: body.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<_> = [1, 2, 3, 9, 10, 40].into_iter().map(|attempts| backoff(attempts).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 256, 300, 300]);
    }

    #[test]
    fn one_namespace_does_not_take_all_requests() {
        let key = |namespace: &str, id: usize| WebhookKey {
            namespace: namespace.parse().unwrap(),
            query: bosun_core::QueryUid::new(1, [0; 10]),
            id: id.to_string(),
        };
        let mut busy: HashSet<_> = (0..AT_ONCE_IN_NAMESPACE).map(|id| key("a", id)).collect();
        assert!(!may_begin(&busy, &"a".parse().unwrap()) && may_begin(&busy, &"b".parse().unwrap()));
        busy.extend((0..AT_ONCE).map(|id| key("c", id)));
        assert!(!may_begin(&busy, &"b".parse().unwrap()));
    }
}
