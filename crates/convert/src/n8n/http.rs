//! Converts an HTTP node of n8n to a request that Bosun can make itself.
//!
//! The host must be fixed, and credentials and secrets in clear text become references. Everything else that a node
//! does (paging, files, expressions over other nodes' data) has no counterpart here: the tool then stays with n8n, and
//! the reason is reported.

use std::{borrow::Cow, time::Duration};

use bosun_core::{
    audit::{redact_keys, redact_text},
    percent,
    tool::{HttpRequest, Method, NamedValue, SecretRef, ValueSource, header::is_closed_to_arguments},
};
use serde_json::Value;

use super::{
    N8nNode,
    from_ai::{Argument, FromAiKind},
    template::{self, TemplatePart},
};
use crate::{
    Warning, address,
    found::{ConversionRequest, InsideTool},
    names::slug,
    secrets::{
        BODY_SLOT, SLOT, SecretBesideSlot, SecretParameters, has_fixed_text, hide_in_address, hide_in_json,
        hide_in_pair, is_key, is_secret_member, is_secret_parameter, secret_needed, with_marked_slots,
    },
};

/// The part of a request that a value belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpTarget {
    Query,
    Header,
    Body,
    /// A body of `application/x-www-form-urlencoded` or `multipart/form-data`.
    Form,
}

impl HttpTarget {
    fn named(self) -> &'static str {
        match self {
            Self::Query => "query parameter",
            Self::Header => "header",
            Self::Body => "member of the body",
            Self::Form => "field of the form",
        }
    }
}

/// The request of an `httpRequest` node.
pub(super) fn inside(node: &N8nNode<'_>) -> InsideTool {
    let mut draft = HttpToolDraft::new(node);
    let url = draft.parts("URL", node.text("url").unwrap_or_default());
    draft.url(&url);
    if node.is_on("sendQuery") {
        draft.list_or_json(node, "specifyQuery", "queryParameters", "jsonQuery", HttpTarget::Query);
    }
    if node.is_on("sendHeaders") {
        draft.list_or_json(node, "specifyHeaders", "headerParameters", "jsonHeaders", HttpTarget::Header);
    }
    if node.is_on("sendBody") {
        match node.text("contentType").unwrap_or("json") {
            "json" => draft.list_or_json(node, "specifyBody", "bodyParameters", "jsonBody", HttpTarget::Body),
            "form-urlencoded" if node.text("specifyBody").unwrap_or("keypair") == "keypair" => {
                draft.pairs(node, "bodyParameters", HttpTarget::Form);
            }
            "multipart-form-data" => {
                let fields = node.parameter("bodyParameters").and_then(|list| list.get("parameters"));
                let is_file = |field: &Value| field.get("parameterType").is_some_and(|kind| kind == "formBinaryData");
                if fields.and_then(Value::as_array).is_some_and(|fields| fields.iter().any(is_file)) {
                    draft.obstacle("it sends a file of the workflow".to_owned());
                }
                draft.content_type("multipart/form-data");
                draft.pairs(node, "bodyParameters", HttpTarget::Form);
            }
            "raw" => {
                let body = draft.parts("body", node.text("body").unwrap_or_default());
                draft.raw(node.text("rawContentType").unwrap_or("text/plain"), &body);
            }
            other => draft.obstacle(format!("it sends its body as {other}")),
        }
    }
    draft.finish()
}

/// A request under construction, with all obstacles to it.
pub(super) struct HttpToolDraft<'n> {
    node: &'n N8nNode<'n>,
    url: String,
    query: Vec<String>,
    headers: Vec<NamedValue>,
    body: HttpBodyTemplate,
    secrets: SecretParameters,
    losses: Vec<Warning>,
    obstacles: Vec<String>,
}

enum HttpBodyTemplate {
    None,
    Members(Vec<String>),
    Form(Vec<String>),
    Text(String),
}

impl<'n> HttpToolDraft<'n> {
    pub(super) fn new(node: &'n N8nNode<'n>) -> Self {
        let mut draft = Self {
            node,
            url: String::new(),
            query: Vec::new(),
            headers: Vec::new(),
            body: HttpBodyTemplate::None,
            secrets: SecretParameters::new(&slug(node.name, "n8n")),
            losses: Vec::new(),
            obstacles: Vec::new(),
        };
        draft.credentials();
        draft.options();
        draft
    }

    fn obstacle(&mut self, why: impl Into<String>) {
        /// One would do; a few more help a user who wants to remove them.
        const MOST: usize = 8;
        let why = why.into();
        if self.obstacles.len() < MOST && !self.obstacles.contains(&why) {
            self.obstacles.push(why);
        }
    }

    fn loss(&mut self, field: &str, code: &'static str, message: impl Into<String>) {
        let path = if field.is_empty() { self.node.path.clone() } else { self.node.path_of(field) };
        self.losses.push(Warning { path: path.into(), code, message: message.into() });
    }

    pub(super) fn parts(&mut self, what: &str, value: &str) -> Vec<TemplatePart> {
        template::parse(value).unwrap_or_else(|expression| {
            let expression = template::without_texts(&expression);
            self.obstacle(format!("its {what} has the expression `{expression}`, which only n8n evaluates"));
            Vec::new()
        })
    }

    fn credentials(&mut self) {
        let node = self.node;
        let kind = match node.text("authentication").unwrap_or("none") {
            "none" => return,
            "genericCredentialType" => node.text("genericAuthType"),
            _ => node.text("nodeCredentialType"),
        };
        let Some(kind) = kind else { return self.obstacle("its authentication has no credential type") };
        let secret = self.secret(kind);
        let refer = |draft: &mut Self, code, what: String| {
            let message = format!("the secret `{}`, key `{}`, must hold {what}", secret.name, secret.key);
            draft.loss("authentication", code, message);
            let value = ValueSource::SecretKeyRef(secret.clone());
            draft.headers.push(NamedValue { name: "Authorization".to_owned(), value });
        };
        match kind {
            "httpBearerAuth" => refer(self, "secret_needed", "`Bearer ` and the token".to_owned()),
            "httpBasicAuth" => refer(self, "secret_needed", "`Basic ` and user:password in base64".to_owned()),
            "httpHeaderAuth" => refer(
                self,
                "header_name_assumed",
                "the whole value of the header; its name is in n8n's credential and not in the export, so `Authorization` is assumed".to_owned(),
            ),
            "httpQueryAuth" => self.obstacle(
                "its credential is a query parameter whose name is in n8n's credential and not in the export",
            ),
            "httpDigestAuth" | "httpCustomAuth" | "oAuth1Api" => {
                self.obstacle(format!("its credential `{kind}` is computed by n8n for each request"));
            }
            kind if kind.to_ascii_lowercase().contains("oauth2") => {
                self.obstacle(format!("its credential `{kind}` is a token that n8n renews"));
            }
            kind => refer(
                self,
                "header_name_assumed",
                format!("the whole value of the header that n8n makes of `{kind}`; `Authorization` is assumed"),
            ),
        }
    }

    fn secret(&self, kind: &str) -> SecretRef {
        let credential = self.node.credentials.and_then(|credentials| credentials.get(kind));
        let name = credential.and_then(|credential| credential.get("name")).and_then(Value::as_str);
        SecretRef {
            name: slug(name.unwrap_or(kind), "n8n-credential"),
            key: "authorization".to_owned(),
            optional: false,
        }
    }

    fn options(&mut self) {
        let node = self.node;
        for key in node.parameter("options").and_then(Value::as_object).into_iter().flat_map(|options| options.keys()) {
            match key.as_str() {
                "timeout" => {}
                "pagination" => self.obstacle("it reads page after page"),
                _ => self.loss(
                    "options",
                    "option_dropped",
                    format!("the option `{key}` of `{}` has no counterpart", node.name),
                ),
            }
        }
        if node.is_on("provideSslCertificates") {
            self.obstacle("it presents a client certificate");
        }
        if node.is_on("optimizeResponse") {
            self.loss("optimizeResponse", "option_dropped", "the response is given to the model whole");
        }
        if node.object.get("retryOnFail") == Some(&Value::Bool(true)) {
            self.loss("", "option_dropped", format!("`{}` is not tried again when it fails", node.name));
        }
    }

    /// The URL. Everything before the path must be fixed, or a model could send secrets to any host.
    pub(super) fn url(&mut self, parts: &[TemplatePart]) {
        let written = self.written(parts, |text| text.replace('{', "%7B").replace('}', "%7D"), |_| String::new());
        // n8n sends a URL without the spaces around it.
        let written = written.trim();
        let Some((_, after)) = written.split_once("://").filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
        else {
            if self.obstacles.is_empty() {
                self.obstacle("its address is not fixed: the URL must begin with http:// or https://");
            }
            return;
        };
        let host = after.split(['/', '?', '#']).next().unwrap_or_default();
        if host.is_empty() || host.contains('{') {
            self.obstacle("its address is not fixed: the model chooses the host");
        }
        if host.contains('@') {
            self.obstacle("its URL holds a password");
        }
        // A fragment is never sent.
        let address = address::encoded(written.split('#').next().unwrap_or_default());
        match hide_in_address(&address, |what, name, value| self.hide("url", what, name, value)) {
            Ok(url) => self.url = url,
            Err(secret) => self.obstacle(secret.obstacle("part of the URL")),
        }
    }

    /// The slot of a secret that is in clear text in the workflow.
    fn hide(&mut self, field: &str, what: &str, name: &str, value: &str) -> String {
        let (parameter, is_new) = self.secrets.hide(name, value);
        if is_new {
            self.secret_needed(field, what, name, &self.secrets.reference(&parameter));
        }
        format!("{{{{.{parameter}}}}}")
    }

    fn secret_needed(&mut self, field: &str, what: &str, name: &str, secret: &SecretRef) {
        let path = self.node.path_of(field);
        self.losses.push(secret_needed(&path, "workflow", what, name, secret));
    }

    /// Text with `{key}` or another form of placeholder in it.
    fn written(
        &mut self,
        parts: &[TemplatePart],
        text: impl Fn(&str) -> String,
        slot: impl Fn(&Argument) -> String,
    ) -> String {
        let mut written = String::new();
        for part in parts {
            match part {
                TemplatePart::Text(part) => written.push_str(&text(part)),
                TemplatePart::Slot(argument) => {
                    if let Some(default) = &argument.default {
                        let default = default.to_string();
                        let message = format!(
                            "n8n sends {} when the model gives no `{}`; here it is left out",
                            redact_text(&default),
                            argument.key
                        );
                        self.loss("", "default_not_sent", message);
                    }
                    let special = slot(argument);
                    written.push_str(&if special.is_empty() { format!("{{{}}}", argument.key) } else { special });
                }
            }
        }
        written
    }

    fn list_or_json(&mut self, node: &N8nNode<'_>, specify: &str, list: &str, json: &str, target: HttpTarget) {
        if node.text(specify).unwrap_or("keypair") == "json" {
            let parts = self.parts("JSON", node.text(json).unwrap_or_default());
            return self.json(target, &parts);
        }
        self.pairs(node, list, target);
    }

    fn pairs(&mut self, node: &N8nNode<'_>, list: &str, target: HttpTarget) {
        let pairs = node.parameter(list).and_then(|list| list.get("parameters")).and_then(Value::as_array);
        for pair in pairs.into_iter().flatten() {
            let Some(name) = pair.get("name").and_then(Value::as_str).filter(|name| !name.is_empty()) else { continue };
            let Some(name) = self.fixed_name(target, name) else { continue };
            let name = name.as_str();
            let parts = match pair.get("value") {
                Some(Value::String(value)) => self.parts(&format!("value of `{name}`"), value),
                None | Some(Value::Null) => Vec::new(),
                Some(value) => vec![TemplatePart::Text(value.to_string())],
            };
            self.pair(target, name, &parts);
        }
    }

    /// The name of a pair, which must not be an expression.
    pub(super) fn fixed_name(&mut self, target: HttpTarget, written: &str) -> Option<String> {
        let mut name = String::new();
        for part in self.parts(&format!("name of a {}", target.named()), written) {
            match part {
                TemplatePart::Text(text) => name.push_str(&text),
                TemplatePart::Slot(_) => {
                    self.obstacle(format!("the model chooses the name of a {}", target.named()));
                    return None;
                }
            }
        }
        (!name.is_empty()).then_some(name)
    }

    /// One name and value of the query, the headers or a body.
    pub(super) fn pair(&mut self, target: HttpTarget, name: &str, parts: &[TemplatePart]) {
        let is_fixed = parts.iter().all(|part| matches!(part, TemplatePart::Text(_)));
        let text = marked(parts);
        let is_secret = has_fixed_text(&text)
            && match target {
                HttpTarget::Body | HttpTarget::Form => is_secret_member(name, &text),
                HttpTarget::Query | HttpTarget::Header => is_secret_parameter(name, &text),
            };
        if is_secret && !is_fixed && (target != HttpTarget::Header || !is_secret_parameter(name, "")) {
            return self.obstacle(SecretBesideSlot(name.to_owned()).obstacle(target.named()));
        }
        let is_hidden = is_secret && is_fixed;
        match target {
            HttpTarget::Query if is_hidden => {
                let value = self.hide("queryParameters", target.named(), name, &text);
                self.query.push(format!("{}={value}", percent::encode(name)));
            }
            HttpTarget::Query => {
                let value = self.written(parts, percent::encode, |_| String::new());
                self.query.push(format!("{}={value}", percent::encode(name)));
            }
            HttpTarget::Header if is_hidden => {
                let secret =
                    SecretRef { name: slug(self.node.name, "n8n"), key: slug(name, "header"), optional: false };
                self.secret_needed("headerParameters", target.named(), name, &secret);
                self.headers.push(NamedValue { name: name.to_owned(), value: ValueSource::SecretKeyRef(secret) });
            }
            HttpTarget::Header => self.header(name, parts, is_fixed),
            HttpTarget::Body => {
                let value = if is_hidden {
                    format!("\"{}\"", self.hide("bodyParameters", target.named(), name, &text))
                } else {
                    self.json_value(parts)
                };
                let member = format!("{}: {value}", Value::from(name));
                match &mut self.body {
                    HttpBodyTemplate::Members(members) => members.push(member),
                    _ => self.body = HttpBodyTemplate::Members(vec![member]),
                }
            }
            HttpTarget::Form => {
                let value = if is_hidden {
                    self.hide("bodyParameters", target.named(), name, &text)
                } else {
                    self.written(parts, percent::encode, body_slot)
                };
                let field = format!("{}={value}", percent::encode(name));
                match &mut self.body {
                    HttpBodyTemplate::Form(fields) => fields.push(field),
                    _ => self.body = HttpBodyTemplate::Form(vec![field]),
                }
            }
        }
    }

    fn header(&mut self, name: &str, parts: &[TemplatePart], is_fixed: bool) {
        if !is_fixed && (is_secret_parameter(name, "") || is_closed_to_arguments(name)) {
            return self.obstacle(format!("the model fills the header `{name}`"));
        }
        if parts.iter().any(|part| matches!(part, TemplatePart::Text(text) if text.contains("{{"))) {
            return self.obstacle(format!("the header `{name}` has `{{{{` in its text, which would be read as a slot"));
        }
        let value = ValueSource::Literal(self.written(parts, str::to_owned, body_slot));
        self.headers.push(NamedValue { name: name.to_owned(), value });
    }

    /// A value of a JSON body. A lone placeholder is the argument itself; within a text it is part of it.
    fn json_value(&mut self, parts: &[TemplatePart]) -> String {
        if let [TemplatePart::Slot(argument)] = parts {
            return self.written(parts, str::to_owned, |_| {
                let slot = body_slot(argument);
                if argument.kind == FromAiKind::String { format!("\"{slot}\"") } else { slot }
            });
        }
        self.refuse_braces(parts);
        let inside = |text: &str| {
            let quoted = Value::from(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        format!("\"{}\"", self.written(parts, inside, body_slot))
    }

    fn refuse_braces(&mut self, parts: &[TemplatePart]) {
        if parts.iter().any(|part| matches!(part, TemplatePart::Text(text) if text.contains("{{"))) {
            self.obstacle("its body has `{{` in a text, which would be read as a slot");
        }
    }

    /// A query, headers or body that is written as JSON.
    pub(super) fn json(&mut self, target: HttpTarget, parts: &[TemplatePart]) {
        if target == HttpTarget::Body {
            self.refuse_braces(parts);
            self.json_text(parts);
            self.content_type("application/json");
            return;
        }
        let [TemplatePart::Text(text)] = parts else {
            return self.obstacle("its query or headers are JSON that the model fills");
        };
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(members)) => {
                for (name, value) in &members {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    self.pair(target, name, &[TemplatePart::Text(text)]);
                }
            }
            _ => self.obstacle("its query or headers are not a JSON object"),
        }
    }

    /// The model fills in all of it as one object.
    pub(super) fn whole(&mut self, target: HttpTarget, argument: &Argument) {
        if target == HttpTarget::Body {
            self.body = HttpBodyTemplate::Text(body_slot(argument));
            self.content_type("application/json");
        } else {
            self.obstacle("the model gives all of its query or headers");
        }
    }

    fn raw(&mut self, content_type: &str, parts: &[TemplatePart]) {
        self.refuse_braces(parts);
        if content_type.to_ascii_lowercase().contains("json") {
            self.json_text(parts);
        } else {
            let mut text = self.written(parts, str::to_owned, body_slot);
            if content_type.to_ascii_lowercase().contains("form-urlencoded") {
                text = self.raw_form(&text);
            } else if matches!(redact_keys(&text), Cow::Owned(_)) || is_key(&with_marked_slots(&text, BODY_SLOT)) {
                self.obstacle("its body holds what looks like a key, in clear text");
            }
            self.body = HttpBodyTemplate::Text(text);
        }
        self.content_type(content_type);
    }

    /// A form that is written as it is sent. Its secrets become references.
    fn raw_form(&mut self, text: &str) -> String {
        let mut fields = Vec::new();
        for pair in text.trim().split('&') {
            let hide = |name: &str, value: &str| self.hide("body", HttpTarget::Form.named(), name, value);
            match hide_in_pair(pair, BODY_SLOT, is_secret_member, hide) {
                Ok(field) => fields.push(field),
                Err(secret) => self.obstacle(secret.obstacle(HttpTarget::Form.named())),
            }
        }
        fields.join("&")
    }

    /// A body that is written as JSON. Its secrets become references.
    fn json_text(&mut self, parts: &[TemplatePart]) {
        let text = self.written(parts, str::to_owned, body_slot);
        let mut found = Vec::new();
        let secrets = &mut self.secrets;
        let text = hide_in_json(&text, |name, value| {
            let (parameter, is_new) = secrets.hide(name, value);
            if is_new {
                found.push((name.to_owned(), parameter.clone()));
            }
            format!("{{{{.{parameter}}}}}")
        });
        for (name, parameter) in found {
            let secret = self.secrets.reference(&parameter);
            self.secret_needed("jsonBody", HttpTarget::Body.named(), &name, &secret);
        }
        match text {
            Ok(text) => self.body = HttpBodyTemplate::Text(text),
            Err(secret) => self.obstacle(secret.obstacle(HttpTarget::Body.named())),
        }
    }

    fn content_type(&mut self, value: &str) {
        if !self.headers.iter().any(|header| header.name.eq_ignore_ascii_case("content-type")) {
            let value = ValueSource::Literal(value.to_owned());
            self.headers.push(NamedValue { name: "Content-Type".to_owned(), value });
        }
    }

    pub(super) fn finish(mut self) -> InsideTool {
        let word = self.node.text("method").unwrap_or("GET");
        let method = Method::parse(word);
        let has_body = !matches!(self.body, HttpBodyTemplate::None);
        match method {
            None => self.obstacle(format!("its method is {word}")),
            Some(method) if has_body && !method.has_body() => self.obstacle(format!("it sends a body with {word}")),
            Some(_) => {}
        }
        match &self.body {
            HttpBodyTemplate::Members(_) => self.content_type("application/json"),
            HttpBodyTemplate::Form(_) => self.content_type("application/x-www-form-urlencoded"),
            HttpBodyTemplate::None | HttpBodyTemplate::Text(_) => {}
        }
        if !self.obstacles.is_empty() {
            return InsideTool::Never(self.obstacles.join("; "));
        }
        let body = match self.body {
            HttpBodyTemplate::None => None,
            HttpBodyTemplate::Members(members) => Some(format!("{{{}}}", members.join(", "))),
            HttpBodyTemplate::Form(fields) => Some(fields.join("&")),
            HttpBodyTemplate::Text(text) => Some(text),
        };
        let mut url = self.url;
        for (index, pair) in self.query.iter().enumerate() {
            url.push(if index == 0 && !url.contains('?') { '?' } else { '&' });
            url.push_str(pair);
        }
        let timeout = self.node.parameter("options").and_then(|options| options.get("timeout")).and_then(Value::as_u64);
        InsideTool::AsRequest(Box::new(ConversionRequest {
            http: HttpRequest {
                url,
                method: method.unwrap_or_default(),
                headers: self.headers,
                body,
                body_parameters: self.secrets.into_values(),
                follow_redirects: false,
            },
            takes: None,
            timeout: timeout.map(Duration::from_millis),
            losses: self.losses,
        }))
    }
}

/// The text of a value, with a mark for each slot.
fn marked(parts: &[TemplatePart]) -> String {
    let mut text = String::new();
    for part in parts {
        match part {
            TemplatePart::Text(part) => text.push_str(part),
            TemplatePart::Slot(_) => text.push(SLOT),
        }
    }
    text
}

fn body_slot(argument: &Argument) -> String {
    format!("{{{{.input.{}}}}}", argument.key)
}
