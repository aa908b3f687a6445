//! Builds the request of one turn: secrets are resolved here, at call time, and go nowhere else.
//!
//! The body has a fixed order of fields, and `tools` is the toolset's own text byte for byte: the
//! same conversation always begins with the same bytes, which is what prompt caches look at.

use bosun_core::{
    Namespace,
    schema::dialect::{Dialect, answer_schema},
};
use bosun_engine::model::{ModelError, ModelRequest};
use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
};
use serde_json::Value;

use super::{Config, wire};
use crate::secret::{Secret, Secrets, Source};

/// Everything that is sent, and what must not come back in an error.
pub(super) struct Prepared {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
    pub(super) stream: bool,
    pub(super) redaction: Redaction,
}

/// Texts that no error may repeat, whatever the API answers.
#[derive(Default)]
pub(super) struct Redaction(Vec<Secret>);

impl Redaction {
    /// `message` with every secret taken out, then cut to a bearable length.
    pub(super) fn clean(&self, message: &str) -> String {
        const LONGEST: usize = 500;
        let mut clean: String = message.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
        for secret in &self.0 {
            clean = clean.replace(secret.expose(), "[redacted]");
        }
        match clean.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &clean[..end]),
            None => clean,
        }
    }

    fn add(&mut self, secret: &Secret) {
        // Shorter ones are no secrets, and would take every word of a message apart.
        const SHORTEST: usize = 4;
        if secret.expose().len() >= SHORTEST {
            self.0.push(secret.clone());
        }
    }
}

/// Where one turn's settings come from.
pub(super) struct Settings<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) secrets: &'a Secrets,
    pub(super) config: &'a Config,
}

impl Settings<'_> {
    pub(super) async fn prepare(&self, request: &ModelRequest) -> Result<Prepared, ModelError> {
        let config = self.config;
        let mut redaction = Redaction::default();
        let base = self.value("baseUrl", &config.base_url).await?;
        let url =
            endpoint(base.expose()).map_err(|problem| ModelError::Misconfigured(format!("`baseUrl` {problem}")))?;
        if let Some(query) = url.query() {
            redaction.add(&Secret::new(query.to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(source) = &config.api_key
            && let Some(key) = self.optional("apiKey", source).await?
        {
            headers.insert(AUTHORIZATION, sensitive("apiKey", &format!("Bearer {}", key.expose()))?);
            redaction.add(&key);
        }
        for (name, source) in &config.headers {
            if let Some(value) = self.optional(name, source).await? {
                let spelled = HeaderName::try_from(name.as_str())
                    .map_err(|_| ModelError::Misconfigured(format!("`{name}` is not the name of a header")))?;
                headers.insert(spelled, sensitive(name, value.expose())?);
                redaction.add(&value);
            }
        }
        let model = self.value("model", &config.model).await?;
        let mut properties = Vec::with_capacity(config.properties.len());
        for (name, source) in &config.properties {
            if let Some(value) = self.optional(name, source).await? {
                properties.push((name.as_str(), property(value.expose())));
            }
        }
        let body = body(model.expose(), request, config.stream, &properties)
            .map_err(|error| ModelError::Misconfigured(format!("request cannot be written as JSON: {error}")))?;
        Ok(Prepared { url, headers, body, stream: config.stream, redaction })
    }

    async fn optional(&self, what: &str, source: &Source) -> Result<Option<Secret>, ModelError> {
        let resolved = self.secrets.resolve(self.namespace, source).await;
        resolved.map_err(|error| ModelError::Misconfigured(format!("`{what}` cannot be resolved: {error}")))
    }

    async fn value(&self, what: &str, source: &Source) -> Result<Secret, ModelError> {
        let value = self.optional(what, source).await?;
        value.ok_or_else(|| ModelError::Misconfigured(format!("`{what}` is an optional secret, and it is absent")))
    }
}

/// The URL of chat completions under `base`.
///
/// # Errors
/// With what is wrong about `base`; never with `base` itself, which may hold a secret.
pub(crate) fn endpoint(base: &str) -> Result<Url, &'static str> {
    let mut url = Url::parse(base).map_err(|_| "is not a URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with http:// or https://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user or a password; use `apiKey` or `headers`");
    }
    url.set_fragment(None);
    let mut path = url.path_segments_mut().map_err(|()| "has no path")?;
    path.pop_if_empty().extend(["chat", "completions"]);
    drop(path);
    Ok(url)
}

fn sensitive(name: &str, value: &str) -> Result<HeaderValue, ModelError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| ModelError::Misconfigured(format!("the value of `{name}` cannot stand in a header")))?;
    value.set_sensitive(true);
    Ok(value)
}

/// A property is text in a manifest. What reads as JSON is sent as that; all other text is a string.
fn property(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// What the query asks of the model. Newer models of OpenAI know only `max_completion_tokens`, other servers
/// only `max_tokens`: which it is, the manifest shows if it sets one.
fn options(request: &ModelRequest, properties: &[(&str, Value)]) -> Vec<(&'static str, Value)> {
    const NEWER: &str = "max_completion_tokens";
    let limit = if properties.iter().any(|(name, _)| *name == NEWER) { NEWER } else { "max_tokens" };
    let temperature = request.options.temperature.map(|temperature| ("temperature", Value::from(temperature)));
    let max_tokens = request.options.max_tokens.map(|tokens| (limit, Value::from(tokens)));
    temperature.into_iter().chain(max_tokens).collect()
}

/// Holds the model to the schema of its answer, strictly where the schema loses nothing by that.
fn response_format(request: &ModelRequest) -> Option<Value> {
    let format = request.answer.as_ref()?;
    let told = answer_schema(&format.schema)?;
    let named = serde_json::json!({"name": format.name, "strict": told.strict, "schema": told.schema});
    Some(serde_json::json!({"type": "json_schema", "json_schema": named}))
}

fn body(
    model: &str,
    request: &ModelRequest,
    stream: bool,
    properties: &[(&str, Value)],
) -> Result<String, serde_json::Error> {
    let messages: Vec<_> = request.messages.iter().map(wire::Message::from).collect();
    let mut body = format!("{{\"model\":{}", serde_json::to_string(model)?);
    let mut member = |name: &str, value: &str| {
        body.push_str(",\"");
        body.push_str(name);
        body.push_str("\":");
        body.push_str(value);
    };
    member("messages", &serde_json::to_string(&messages)?);
    let tools = request.toolset.declarations(Dialect::OpenAiChat);
    // The API refuses an empty list.
    if tools.json != "[]" {
        member("tools", &tools.json);
        if !request.tools_allowed {
            member("tool_choice", "\"none\"");
        }
    }
    member("stream", if stream { "true" } else { "false" });
    if stream {
        member("stream_options", "{\"include_usage\":true}");
    }
    if let Some(format) = response_format(request) {
        member("response_format", &format.to_string());
    }
    let asked = options(request, properties);
    for (name, value) in &asked {
        member(name, &serde_json::to_string(value)?);
    }
    for (name, value) in properties.iter().filter(|(name, _)| !asked.iter().any(|(asked, _)| asked == name)) {
        member(name, &serde_json::to_string(value)?);
    }
    body.push('}');
    Ok(body)
}
