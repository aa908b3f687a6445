//! Push notifications: webhooks of a task, in both generations.
//!
//! A config is a [`Webhook`] of the store: it exists until it is deleted, until its task has ended and all of it was
//! posted, or until its receiver has failed too often. [`deliver`] posts. A webhook shows what a task says, so it needs
//! the right to read the task; its token and its credentials are never shown again.

pub(crate) mod deliver;

use bosun_core::{
    Head, Timestamp,
    audit::{Action, AuditRecord, hide_in_urls},
    ceiling::{PUSH_CONFIGS, PUSH_FIELD_BYTES},
};
use bosun_engine::{
    Snapshot,
    store::{Webhook, WebhookChange, WebhookKey, WebhookProgress},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    error::{A2aError, ErrorKind},
    negotiate::Generation,
    operations::AgentRequest,
    reading::{ReadParams, name_in, required_text, text},
};
use crate::{
    auth::Right,
    http::{error::clip, error_echo::HIDDEN, report::BodyFields},
};

/// The id of a config that its client gives none; unique in its task, as all ids are.
const DEFAULT_ID: &str = "default";

/// A client's webhook, as it describes it.
#[derive(Debug)]
pub(super) struct PushConfig {
    /// [`DEFAULT_ID`], if the client gives none: so a request that is repeated has the same.
    id: Option<String>,
    target: PushTarget,
}

/// Where and how events are posted; this is what the store keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct PushTarget {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials: Option<String>,
    /// Whether the receiver reads the objects of 0.3.
    #[serde(default)]
    is_v03: bool,
}

/// Which config of which task; all of them without an id.
#[derive(Debug)]
pub(super) struct PushParams {
    pub(super) task_id: String,
    pub(super) id: Option<String>,
}

/// Reads a config, in the fields of an object.
pub(super) fn read_config(fields: &BodyFields<'_>, generation: Generation) -> Option<PushConfig> {
    let bounded = |name: &str, value: Option<String>| {
        if value.as_ref().is_some_and(|value| value.len() > PUSH_FIELD_BYTES || value.chars().any(char::is_control)) {
            let message = format!("must have at most {PUSH_FIELD_BYTES} bytes and no control characters");
            fields.reject(name, "too_large", message);
        }
        value.filter(|value| !value.is_empty())
    };
    let id = bounded("id", text(fields, "id"));
    let url = bounded("url", required_text(fields, "url"));
    let token = bounded("token", text(fields, "token"));
    let (mut scheme, mut credentials) = (None, None);
    if let Some(authentication) = fields.fields("authentication") {
        scheme = match generation {
            Generation::V1 => authentication.text("scheme"),
            // 0.3 lists schemes; the first is used.
            Generation::V03 => {
                let listed = authentication.list("schemes");
                listed.first().and_then(Value::as_str).map(str::to_owned).or_else(|| authentication.text("scheme"))
            }
        };
        credentials = bounded("authentication", authentication.text("credentials"));
        scheme = bounded("authentication", scheme);
    }
    let target = PushTarget { url: url?, token, scheme, credentials, is_v03: generation == Generation::V03 };
    Some(PushConfig { id, target })
}

/// The parameters of a new config: flat in 1.0, nested in 0.3, and in the ProtoJSON of 0.3 nested twice. Over HTTP the
/// task is in the path.
pub(super) fn read_new(
    params: Value,
    generation: Generation,
    task: Option<String>,
) -> Result<(String, PushConfig), A2aError> {
    let reading = ReadParams::new();
    let fields = reading.fields(params)?;
    let task_id = task.or_else(|| required_text(&fields, "taskId"));
    let config = match generation {
        Generation::V1 => read_config(&fields, generation),
        Generation::V03 => match fields.fields("config") {
            Some(resource) => read_nested(&resource),
            None => read_nested(&fields),
        },
    };
    drop(fields);
    reading.conclude()?;
    let missing = || A2aError::new(ErrorKind::InvalidParams, "the push notification config is not readable");
    Ok((task_id.unwrap_or_default(), config.ok_or_else(missing)?))
}

/// A config of 0.3: in its own field, or in the fields themselves.
fn read_nested(fields: &BodyFields<'_>) -> Option<PushConfig> {
    let nested = name_in(fields, "pushNotificationConfig");
    if fields.has(&nested) {
        return fields.fields(&nested).and_then(|inner| read_config(&inner, Generation::V03));
    }
    read_config(fields, Generation::V03)
}

/// The parameters that name a config, or the configs of a task.
pub(super) fn read_named(params: Value, generation: Generation, needs_id: bool) -> Result<PushParams, A2aError> {
    let reading = ReadParams::new();
    let fields = reading.fields(params)?;
    let (task_id, id) = match generation {
        Generation::V1 => (required_text(&fields, "taskId"), text(&fields, "id")),
        // In 0.3 `id` is the task's.
        Generation::V03 => (required_text(&fields, "id"), text(&fields, "pushNotificationConfigId")),
    };
    if needs_id && id.is_none() && generation == Generation::V1 {
        fields.reject("id", "missing", "is missing: which config?");
    }
    drop(fields);
    reading.conclude()?;
    Ok(PushParams { task_id: task_id.unwrap_or_default(), id })
}

impl AgentRequest {
    /// `CreateTaskPushNotificationConfig`
    pub(super) async fn create_push(&self, task_id: &str, config: PushConfig) -> Result<Value, A2aError> {
        self.need(Right::Run)?;
        self.need(Right::Read)?;
        self.check_push(&config)?;
        let (_, snapshot) = self.find(task_id).await?;
        // What has happened so far was answered; what follows is posted.
        let token = config.target.token.clone();
        let webhook = self.put_push(&snapshot, config, snapshot.head.seq).await?;
        Ok(self.show_push(&webhook, token.as_deref()))
    }

    /// Refuses a config before anything is created for it.
    pub(super) fn check_push(&self, config: &PushConfig) -> Result<(), A2aError> {
        let Some(webhooks) = &self.app.webhooks else { return Err(not_supported()) };
        webhooks.check(&config.target.url).map_err(|why| {
            let message = format!("cannot be called: {why}");
            A2aError::invalid(format!("the url of the config {message}"), vec![("url".to_owned(), message)])
        })
    }

    /// Stores the config of a task; events after entry `after` of its journal are posted.
    pub(super) async fn put_push(
        &self,
        snapshot: &Snapshot,
        config: PushConfig,
        after: u64,
    ) -> Result<Webhook, A2aError> {
        let head = &snapshot.head;
        let target = serde_json::to_string(&config.target).map_err(|_| crate::http::error::internal())?;
        let webhook = Webhook {
            namespace: head.namespace.clone(),
            name: head.name.clone(),
            query: head.uid,
            id: config.id.unwrap_or_else(|| DEFAULT_ID.to_owned()),
            target,
            progress: WebhookProgress { seq: after, attempts: 0, next_at: Timestamp(0) },
        };
        let detail = format!("{} {}", webhook.id, host(&config.target.url));
        let record = Box::new(self.push_record(head, Action::WebhookSet, &detail));
        let change = WebhookChange::Put { webhook: webhook.clone(), at_most: PUSH_CONFIGS, record };
        if self.change(change).await? { Ok(webhook) } else { Err(too_many()) }
    }

    /// Refuses a further config of a task that has all that it may have.
    pub(super) async fn check_room(&self, snapshot: &Snapshot, config: &PushConfig) -> Result<(), A2aError> {
        let id = config.id.as_deref().unwrap_or(DEFAULT_ID);
        let configs = self.configs_of(snapshot).await?;
        if configs.len() < PUSH_CONFIGS || configs.iter().any(|webhook| webhook.id == id) {
            return Ok(());
        }
        Err(too_many())
    }

    /// `GetTaskPushNotificationConfig`
    pub(super) async fn get_push(&self, params: PushParams) -> Result<Value, A2aError> {
        self.need(Right::Read)?;
        let id = params.id.clone().unwrap_or_else(|| DEFAULT_ID.to_owned());
        let found = self.configs(&params.task_id).await?.into_iter().find(|webhook| webhook.id == id);
        let webhook = found.ok_or_else(|| {
            let message = format!("the task has no push notification config '{}'", clip(&id));
            A2aError::new(ErrorKind::TaskNotFound, message)
        })?;
        Ok(self.show_push(&webhook, None))
    }

    /// `ListTaskPushNotificationConfigs`
    pub(super) async fn list_push(&self, params: PushParams) -> Result<Vec<Value>, A2aError> {
        self.need(Right::Read)?;
        Ok(self.configs(&params.task_id).await?.iter().map(|webhook| self.show_push(webhook, None)).collect())
    }

    /// `DeleteTaskPushNotificationConfig`, which may be repeated.
    pub(super) async fn delete_push(&self, params: PushParams) -> Result<(), A2aError> {
        self.need(Right::Run)?;
        let (_, snapshot) = self.find(&params.task_id).await?;
        let id = params.id.unwrap_or_else(|| DEFAULT_ID.to_owned());
        let record = Some(Box::new(self.push_record(&snapshot.head, Action::WebhookDeleted, &id)));
        let key = WebhookKey { namespace: self.namespace.clone(), query: snapshot.head.uid, id };
        self.change(WebhookChange::Remove { key, record }).await?;
        Ok(())
    }

    fn push_record(&self, head: &Head, action: Action, detail: &str) -> AuditRecord {
        AuditRecord::of_webhook(head, self.app.engine.now(), action, Some(&self.caller.actor), detail)
    }

    async fn configs(&self, task_id: &str) -> Result<Vec<Webhook>, A2aError> {
        let (_, snapshot) = self.find(task_id).await?;
        self.configs_of(&snapshot).await
    }

    async fn configs_of(&self, snapshot: &Snapshot) -> Result<Vec<Webhook>, A2aError> {
        let found = self.app.engine.store().webhooks(&self.namespace, snapshot.head.uid).await;
        Ok(found.map_err(bosun_engine::EngineError::from)?)
    }

    async fn change(&self, change: WebhookChange) -> Result<bool, A2aError> {
        let changed = self.app.engine.store().change_webhook(change).await;
        Ok(changed.map_err(bosun_engine::EngineError::from)?)
    }

    pub(super) fn check_supported(&self) -> Result<(), A2aError> {
        if self.app.webhooks.is_some() { Ok(()) } else { Err(not_supported()) }
    }

    /// A config as the client's generation writes it, without its credentials. Only the answer to the client that sets it
    /// has the `token`: with it, other readers of the task could post to the receiver.
    fn show_push(&self, webhook: &Webhook, token: Option<&str>) -> Value {
        let Ok(target) = serde_json::from_str::<PushTarget>(&webhook.target) else { return Value::Null };
        let mut config = json!({ "id": webhook.id, "url": hide_in_urls(&target.url, HIDDEN) });
        if let Some(token) = token {
            config["token"] = json!(token);
        }
        let task = webhook.name.as_str();
        match self.generation {
            Generation::V1 => {
                if let Some(scheme) = &target.scheme {
                    config["authentication"] = json!({ "scheme": scheme });
                }
                config["taskId"] = json!(task);
                config
            }
            Generation::V03 => {
                if let Some(scheme) = &target.scheme {
                    config["authentication"] = json!({ "schemes": [scheme] });
                }
                json!({ "taskId": task, "pushNotificationConfig": config })
            }
        }
    }
}

/// The host of a URL, and its port if it has one.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// A list of configs: all of them, since a task has few.
pub(super) fn page(generation: Generation, configs: Vec<Value>) -> Value {
    match generation {
        Generation::V1 => json!({ "configs": configs, "nextPageToken": "" }),
        Generation::V03 => Value::Array(configs),
    }
}

fn too_many() -> A2aError {
    let message = format!("a task has at most {PUSH_CONFIGS} push notification configs; delete one first");
    A2aError::invalid(message.clone(), vec![("id".to_owned(), message)])
}

fn not_supported() -> A2aError {
    A2aError::new(ErrorKind::PushNotSupported, "push notifications are not supported; subscribe to the task instead")
}
