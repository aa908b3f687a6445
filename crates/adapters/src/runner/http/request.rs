//! Builds the request of one call: values are looked up here, at call time, and go nowhere else.

use std::collections::BTreeMap;

use bosun_core::{
    Namespace,
    audit::is_secret_name,
    machine::outcome_code,
    tool::{HttpRequest, ValueSource},
};
use bosun_engine::runner::{InsideCall, RunContext};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request, Uri,
    header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT},
};
use url::Url;

use super::{
    CallFailure,
    template::{RequestTemplate, SlotValues},
};
use crate::{
    outbound::trace_headers,
    secret::{
        Secret, SecretError, SecretSource, Secrets,
        binding::{Destination, HostPart, SecretReach},
        redaction::Redaction,
    },
};

/// The id of the call. An API that knows the header does not repeat the effect of a request that is sent again.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const OWN_AGENT: &str = concat!("bosun/", env!("CARGO_PKG_VERSION"));

/// Headers that do not identify the caller; a redirect to another host keeps them.
const NOT_CREDENTIALS: &[HeaderName] = &[ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, USER_AGENT];

/// Everything that is sent.
#[derive(Clone, Debug)]
pub(super) struct PreparedRequest {
    method: Method,
    /// The address as it is sent, of the origin of the template or of a redirect.
    url: Url,
    headers: HeaderMap,
    body: Bytes,
}

impl PreparedRequest {
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn request(&self) -> Result<Request<Full<Bytes>>, CallFailure> {
        let uri = Uri::try_from(self.url.as_str());
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri.map_err(|_| CallFailure::failed("the address is not one that can be called"))?;
        *request.headers_mut() = self.headers.clone();
        Ok(request)
    }

    /// The request that follows a redirect. `keeps_method` is false for the statuses that turn it into a GET.
    ///
    /// # Errors
    /// If it would send a body to another host.
    pub(super) fn redirected(mut self, to: Url, keeps_method: bool) -> Result<Self, CallFailure> {
        if !keeps_method && self.method != Method::GET {
            self.method = Method::GET;
            self.body = Bytes::new();
            self.headers.remove(CONTENT_TYPE);
            self.headers.remove(IDEMPOTENCY_KEY);
        }
        if to.origin() != self.url.origin() {
            if !self.body.is_empty() {
                return Err(CallFailure::failed("the API redirected a request with a body to another host"));
            }
            let names: Vec<_> = self.headers.keys().filter(|name| !NOT_CREDENTIALS.contains(name)).cloned().collect();
            for name in names {
                self.headers.remove(name);
            }
        }
        self.url = to;
        Ok(self)
    }
}

/// Where the values of one call come from.
pub(super) struct Sources<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) secrets: &'a Secrets,
    pub(super) reach: &'a SecretReach,
    /// The parameters of the query.
    pub(super) parameters: &'a BTreeMap<String, String>,
}

impl Sources<'_> {
    /// The request, and the secrets in it, which must not come back.
    pub(super) async fn prepare(
        &self,
        template: &RequestTemplate,
        request: &HttpRequest,
        call: &InsideCall,
        context: &RunContext,
    ) -> Result<(PreparedRequest, Redaction), CallFailure> {
        let mut redaction = Redaction::default();
        let mut parameters = BTreeMap::new();
        for parameter in &request.body_parameters {
            let found = self.resolve(&parameter.name, &parameter.value, HostPart::Body, template.origin()).await?;
            let Some(value) = found else { continue };
            if is_secret(&parameter.name, &parameter.value) {
                redaction.add(&value);
            }
            parameters.insert(parameter.name.clone(), value.expose().to_owned());
        }
        let values = SlotValues { arguments: &call.arguments, parameters: &parameters };
        let rendered = (template.render(values))
            .map_err(|error| CallFailure::new(outcome_code::INVALID_ARGUMENTS, error.to_string()))?;
        let mut headers = HeaderMap::new();
        // First, so that a manifest can override it.
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(USER_AGENT, HeaderValue::from_static(OWN_AGENT));
        headers.extend(context.trace.iter().flat_map(|trace| trace_headers(trace)));
        if rendered.method != bosun_core::tool::Method::Get {
            headers.extend(HeaderValue::try_from(call.id.to_string()).ok().map(|id| (IDEMPOTENCY_KEY, id)));
        }
        for (name, value) in rendered.headers {
            if is_secret_name(name.as_str())
                && let Ok(text) = value.to_str()
            {
                redaction.add(&Secret::new(text.to_owned()));
            }
            headers.insert(name, value);
        }
        for (name, source) in template.references() {
            let Some(value) = self.resolve(name.as_str(), source, HostPart::Header, template.origin()).await? else {
                continue;
            };
            headers.insert(name.clone(), sensitive(name, value.expose())?);
            if is_secret(name.as_str(), source) {
                redaction.add(&value);
            }
        }
        // Last: nothing overrides it. `Host` is set by the connection, since HTTP/2 has another name for it.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, deflate"));
        let text = format!("{}{}", template.origin().as_str().trim_end_matches('/'), rendered.path_and_query);
        let url = Url::parse(&text).map_err(|_| CallFailure::failed("the address is not one that can be called"))?;
        let method = Method::from_bytes(rendered.method.as_str().as_bytes())
            .map_err(|_| CallFailure::failed("the method is not one that can be used"))?;
        let body = rendered.body.map(Bytes::from).unwrap_or_default();
        Ok((PreparedRequest { method, url, headers, body }, redaction))
    }

    /// The value of a header or of a parameter; `None` if it is optional and absent.
    async fn resolve(
        &self,
        name: &str,
        source: &ValueSource,
        part: HostPart,
        to: &Url,
    ) -> Result<Option<Secret>, CallFailure> {
        let missing = |message: String| Err(CallFailure::new(outcome_code::TOOL_MISCONFIGURED, message));
        match source {
            ValueSource::Literal(text) => Ok(Some(Secret::new(text.clone()))),
            ValueSource::SecretKeyRef(reference) => {
                let source = SecretSource::Reference(reference.clone());
                let to = Destination { url: to, kept_in: None };
                let resolved = self.secrets.resolve_for(self.namespace, &source, part, to, self.reach).await;
                resolved.map_err(|error| unresolved(name, &error))
            }
            ValueSource::QueryParameterRef { name: parameter } => match self.parameters.get(parameter) {
                Some(text) => Ok(Some(Secret::new(text.clone()))),
                None => missing(format!("`{name}` needs the parameter `{parameter}`, which the query does not have")),
            },
            // Existing ones were replaced by their values when the registry was assembled.
            ValueSource::ConfigMapKeyRef(reference) if reference.optional => Ok(None),
            ValueSource::ConfigMapKeyRef(reference) => missing(format!(
                "`{name}` needs the key `{}` of ConfigMap `{}`, which does not exist in namespace `{}`",
                reference.key, reference.name, self.namespace
            )),
        }
    }
}

fn is_secret(name: &str, source: &ValueSource) -> bool {
    matches!(source, ValueSource::SecretKeyRef(_)) || is_secret_name(name)
}

/// The model reads it: it names the setting, and never its value.
fn unresolved(name: &str, error: &SecretError) -> CallFailure {
    let code = if error.is_refusal() { outcome_code::SECRET_NOT_ALLOWED } else { outcome_code::TOOL_MISCONFIGURED };
    CallFailure::new(code, format!("`{name}` cannot be resolved: {error}"))
}

fn sensitive(name: &HeaderName, value: &str) -> Result<HeaderValue, CallFailure> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        let message = format!("the value of header `{name}` has characters that are not valid in a header");
        CallFailure::new(outcome_code::TOOL_MISCONFIGURED, message)
    })?;
    value.set_sensitive(true);
    Ok(value)
}
