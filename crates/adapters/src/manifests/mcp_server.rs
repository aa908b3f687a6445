//! MCP servers: where they are or how they are started, and how far they are trusted.
//!
//! `address`, `transport`, `headers`, `timeout` and `pollInterval` are ARK's. Ours are `transport: stdio`, `pin`,
//! `trustHints`, `sessions`, `elicitation` and the form of `authorization`. A program is started only if a file says so: a manifest that a client
//! has stored would otherwise run commands on the server.

use std::{path::PathBuf, sync::Arc, time::Duration};

use bosun_core::{
    Namespace,
    tool::{Confirm, NamedValue},
};
use bosun_reading::{Fault, Fields, named_values, spec};
use url::Url;

use super::{
    document::{Document, LocatedManifest, ManifestMetadata},
    endpoint::{self, EndpointHeader},
    reference::Referrer,
    value,
};
use crate::{
    outbound::Pool,
    secret::{
        SecretSource, Secrets,
        binding::{Grants, HostPart, SecretReach},
    },
};

const STDIO: &str = "write `stdio: {command: …, args: […]}`";
const TRANSPORTS: &str = "transports are `http` (streamable HTTP), `stdio` (a program on this machine) and `sse`, which \
                          this version does not connect to";
/// What to do instead of the transport that MCP replaced in 2025.
pub const NO_SSE: &str = "the transport HTTP+SSE was replaced in MCP 2025-03-26: use `transport: http` with the \
                                 server's newer address, which often ends with `/mcp`, or a bridge such as \
                                 `mcp-remote` with `transport: stdio`";

/// The names under which manifests may ask for the browser flow.
const BROWSER_FLOW: &[&str] = &["authorizationCode", "oauth", "oauth2", "dynamicClientRegistration"];

/// The default timeout of a call without progress, as in ARK.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_secs(60);

/// An MCP server as its manifest describes it. Secrets are resolved when a program is started and at each request.
#[derive(Clone, Debug, PartialEq)]
pub struct McpServerManifest {
    pub namespace: Namespace,
    pub name: String,
    pub transport: McpTransport,
    /// How long a call may take without a sign of progress, if the manifest says so.
    pub timeout: Option<Duration>,
    /// How often the server's tools are listed again.
    pub poll_interval: Duration,
    pub pin: PinPolicy,
    /// Whether the hints of the server (`readOnlyHint`, `idempotentHint`) decide what may be repeated.
    pub trust_hints: bool,
    /// Whether calls of its tools wait for approval; the agent's policy where `None`.
    pub confirm: Option<Confirm>,
    pub sharing: SessionSharing,
    pub elicitation: ElicitationPolicy,
    /// Where its secrets may be sent, and what it may call.
    pub reach: SecretReach,
}

/// Which callers share a session with the server, and with it whatever state the server keeps for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionSharing {
    /// All callers of the namespace, unless a header depends on the query.
    Shared,
    /// Each actor has its own.
    PerActor,
}

/// How to reach an MCP server.
#[derive(Clone, Debug, PartialEq)]
pub enum McpTransport {
    Http(Box<McpEndpoint>),
    Stdio(McpCommand),
    /// The transport of 2024, which is not served.
    Sse,
}

/// A server behind streamable HTTP.
#[derive(Clone, Debug, PartialEq)]
pub struct McpEndpoint {
    pub address: SecretSource,
    pub headers: Vec<(String, EndpointHeader)>,
    pub authorization: Option<McpAuthorization>,
}

/// What is answered when the server asks for a user's input in the middle of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationPolicy {
    /// That it is not supported.
    Refuse,
    /// The default values of the form, if they fill it. The operator takes responsibility for what they confirm.
    Defaults,
}

/// The value of the header `authorization`.
#[derive(Clone, Debug, PartialEq)]
pub enum McpAuthorization {
    Bearer(SecretSource),
    /// OAuth's grant for clients without a user.
    ClientCredentials {
        token_url: Url,
        client_id: SecretSource,
        client_secret: SecretSource,
        scopes: Vec<String>,
    },
}

/// A server that is a program on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct McpCommand {
    pub command: String,
    pub args: Vec<String>,
    /// Added to the few variables that every program gets.
    pub env: Vec<(String, SecretSource)>,
    /// That of the server where absent.
    pub cwd: Option<PathBuf>,
}

/// What happens to a tool whose definition has changed since it was first seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinPolicy {
    /// It is quarantined until an operator approves it, and so is a tool that is new.
    Strict,
    /// The default of programs on this machine: a new name, title or description is logged and accepted, and anything
    /// else is treated as by `Strict`.
    WarnOfTexts,
    /// It is logged and accepted.
    Warn,
    Off,
}

impl McpServerManifest {
    /// How long a request may take without a sign of progress.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// Binds the secrets of a stored server to the destinations to which the files send them.
    pub(super) fn bind(&mut self, grants: &Arc<Grants>) {
        self.reach = SecretReach::Stored { grants: Arc::clone(grants), own: None };
    }

    /// Everything that may be a secret, with its field and its destination.
    fn sent(&self) -> impl Iterator<Item = (&str, HostPart, &SecretSource, Url)> {
        let McpTransport::Http(endpoint) = &self.transport else { return Vec::new().into_iter() };
        let mut sent = Vec::new();
        if let Some(url) = endpoint.literal_url() {
            for (name, value) in &endpoint.headers {
                if let EndpointHeader::Fixed(source) = value {
                    sent.push((name.as_str(), HostPart::Header, source, url.clone()));
                }
            }
            if let Some(McpAuthorization::Bearer(source)) = &endpoint.authorization {
                sent.push(("authorization", HostPart::Header, source, url));
            }
        }
        if let Some(McpAuthorization::ClientCredentials { token_url, client_id, client_secret, .. }) =
            &endpoint.authorization
        {
            // They are sent as HTTP Basic, which is a header.
            sent.push(("authorization.clientCredentials.clientId", HostPart::Header, client_id, token_url.clone()));
            sent.push((
                "authorization.clientCredentials.clientSecret",
                HostPart::Key,
                client_secret,
                token_url.clone(),
            ));
        }
        sent.into_iter()
    }

    /// Everything that keeps this server from being called, as far as that is known before a call.
    pub(super) async fn check_destination(&self, secrets: &Secrets, pool: &Pool) -> Vec<Fault> {
        let McpTransport::Http(endpoint) = &self.transport else { return Vec::new() };
        let mut faults = Vec::new();
        let token_url = match &endpoint.authorization {
            Some(McpAuthorization::ClientCredentials { token_url, .. }) => Some(token_url.clone()),
            _ => None,
        };
        let called = [("address", endpoint.literal_url()), ("authorization.clientCredentials.tokenUrl", token_url)];
        for (field, url) in called {
            faults.extend(url.and_then(|url| endpoint::check_address(&self.reach, field, &url, pool)));
        }
        for (field, part, source, url) in self.sent() {
            faults
                .extend(endpoint::check_secret(&self.namespace, &self.reach, field, part, source, &url, secrets).await);
        }
        faults
    }
}

impl McpEndpoint {
    /// The address, if it is written in the manifest.
    #[must_use]
    pub fn literal_url(&self) -> Option<Url> {
        endpoint::literal_url(&self.address)
    }
}

/// Adds where these servers, which are described by files, send which secrets.
pub(super) fn add_grants(servers: &[McpServerManifest], grants: &mut Grants) {
    for server in servers {
        for (_, _, source, url) in server.sent() {
            grants.add(&server.namespace, source, &url);
        }
    }
}

/// A server; it has no references.
#[derive(Debug)]
pub(super) struct McpServerDraft {
    pub(super) server: McpServerManifest,
}

impl McpServerDraft {
    pub(super) fn referrer(&self) -> Referrer {
        let (namespace, name) = (self.server.namespace.clone(), self.server.name.clone());
        Referrer { kind: Document::McpServer, namespace, name, references: Vec::new() }
    }
}

pub(super) fn read(metadata: &ManifestMetadata, fields: &Fields<'_>) -> Option<LocatedManifest<McpServerDraft>> {
    let spec = fields.required_fields("spec", "an MCP server has at least an `address`")?;
    let spec = spec.with_table(spec::MCP_SERVER);
    let written = spec.text("transport");
    let transport = match written.map(|text| text.value) {
        None if spec.has("stdio") => stdio(&spec),
        None | Some("http") => http(&spec),
        Some("sse") => http(&spec).map(|_| McpTransport::Sse),
        Some("stdio") => stdio(&spec),
        Some(other) => {
            let place = written.map_or_else(|| spec.place(), |text| text.place);
            spec.fault(place, "bad_value", format!("there is no transport `{other}`"), TRANSPORTS);
            http(&spec);
            None
        }
    };
    let timeout = spec.positive_duration("timeout");
    let poll_interval = spec.positive_duration("pollInterval").unwrap_or(POLL_INTERVAL);
    spec.text("description");
    let is_local = matches!(transport, Some(McpTransport::Stdio(_)));
    let pin = pin(&spec, is_local);
    let trust_hints = endpoint::operators_word(&spec, "trustHints");
    let confirm = endpoint::confirm(&spec);
    let sharing = sharing(&spec);
    let elicitation = elicitation(&spec);
    spec.finish();
    let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
    let (transport, reach) = (transport?, SecretReach::File);
    let server = McpServerManifest {
        namespace,
        name,
        transport,
        timeout,
        poll_interval,
        pin,
        trust_hints,
        confirm,
        sharing,
        elicitation,
        reach,
    };
    Some(metadata.located(fields, McpServerDraft { server }))
}

fn pin(spec: &Fields<'_>, is_local: bool) -> PinPolicy {
    let default = if is_local { PinPolicy::WarnOfTexts } else { PinPolicy::Strict };
    let Some(text) = spec.text("pin") else { return default };
    match text.value {
        "strict" => PinPolicy::Strict,
        "warn" => PinPolicy::Warn,
        "off" => PinPolicy::Off,
        other => {
            let message = format!("there is no policy `{other}` for changed definitions");
            spec.fault(text.place, "bad_value", message, "`pin` is `strict`, `warn` or `off`");
            default
        }
    }
}

fn sharing(spec: &Fields<'_>) -> SessionSharing {
    let Some(text) = spec.text("sessions") else { return SessionSharing::Shared };
    match text.value {
        "shared" => SessionSharing::Shared,
        "per-actor" => SessionSharing::PerActor,
        other => {
            let message = format!("sessions cannot be `{other}`");
            spec.fault(text.place, "bad_value", message, "`sessions` is `shared` or `per-actor`");
            SessionSharing::Shared
        }
    }
}

fn elicitation(spec: &Fields<'_>) -> ElicitationPolicy {
    let Some(text) = spec.text("elicitation") else { return ElicitationPolicy::Refuse };
    match text.value {
        "refuse" => ElicitationPolicy::Refuse,
        "defaults" => {
            // A server's questions are for a person, and the operator alone answers for one.
            endpoint::refuse_of_client(spec, "elicitation");
            ElicitationPolicy::Defaults
        }
        other => {
            let message = format!("there is no answer `{other}` to a server that asks for a user's input");
            spec.fault(text.place, "bad_value", message, "`elicitation` is `refuse` or `defaults`");
            ElicitationPolicy::Refuse
        }
    }
}

fn http(spec: &Fields<'_>) -> Option<McpTransport> {
    spec.unserved(&["stdio"], "it belongs to `transport: stdio`");
    let address = endpoint::address(spec);
    let headers = endpoint::headers(spec, "mcp-");
    let authorization = authorization(spec);
    Some(McpTransport::Http(Box::new(McpEndpoint { address: address?, headers, authorization })))
}

fn authorization(spec: &Fields<'_>) -> Option<McpAuthorization> {
    const HINT: &str =
        "write `bearer: {valueFrom: …}` or `clientCredentials: {tokenUrl: …, clientId: …, clientSecret: …}`";
    let fields = spec.fields("authorization")?.with_table(spec::MCP_AUTHORIZATION);
    fields.unserved(BROWSER_FLOW, "the browser flow of OAuth needs a person; use `bearer` or `clientCredentials`");
    let bearer = value::optional(&fields, "bearer").map(|value| McpAuthorization::Bearer(value.source));
    let credentials = fields.fields("clientCredentials").and_then(|inner| {
        let inner = inner.with_table(spec::CLIENT_CREDENTIALS);
        let token_url = inner.required_text("tokenUrl", "the address of the authorization server's token endpoint");
        let client_id = value::required(&inner, "clientId");
        let client_secret = value::required(&inner, "clientSecret");
        let scopes = inner.text_list("scopes").unwrap_or_default();
        inner.finish();
        let token_url = token_url?;
        let Some(url) = Url::parse(token_url.value).ok().filter(|url| matches!(url.scheme(), "http" | "https")) else {
            let message = format!("`{}` is not an http URL", token_url.value);
            inner.fault(token_url.place, "bad_value", message, "");
            return None;
        };
        Some(McpAuthorization::ClientCredentials {
            token_url: url,
            client_id: client_id?.source,
            client_secret: client_secret?.source,
            scopes: scopes.into_iter().map(|scope| scope.value.to_owned()).collect(),
        })
    });
    fields.finish();
    match (bearer, credentials) {
        (Some(_), Some(_)) => {
            spec.fault_of("authorization", "bad_value", "`authorization` has two ways to authorize", HINT);
            None
        }
        (None, None) => {
            let is_present = |name: &&str| fields.has(name);
            if !["bearer", "clientCredentials"].iter().chain(BROWSER_FLOW).any(is_present) {
                spec.fault_of("authorization", "bad_value", "`authorization` is empty", HINT);
            }
            None
        }
        (bearer, credentials) => bearer.or(credentials),
    }
}

fn stdio(spec: &Fields<'_>) -> Option<McpTransport> {
    spec.unserved(&["address", "headers", "authorization"], "it belongs to `transport: http`");
    let fields = spec.required_fields("stdio", STDIO)?.with_table(spec::STDIO);
    if spec.report().is_of_client() {
        let hint = "only a manifest in a file may name a program, since clients must not run commands on the server";
        spec.fault(fields.place(), "unsupported_field", "a stored MCP server cannot be a program", hint);
        return None;
    }
    let command = fields.required_text("command", "the program, by name or by path");
    let args = fields.text_list("args").unwrap_or_default();
    let env = secret_values(&fields, "env");
    let cwd = fields.text("cwd").map(|text| super::model::sibling(spec.report().file(), text.value));
    fields.finish();
    for (name, _) in env.iter().filter(|(name, _)| name.is_empty() || name.contains(['=', '\0'])) {
        fields.fault_of("env", "bad_value", format!("`{name}` is not the name of a variable"), "");
    }
    let command = command.filter(|text| !text.value.is_empty())?.value.to_owned();
    let args = args.into_iter().map(|text| text.value.to_owned()).collect();
    Some(McpTransport::Stdio(McpCommand { command, args, env, cwd }))
}

/// Named values, each a literal or a secret: there is no query whose parameters they could refer to.
fn secret_values(fields: &Fields<'_>, list: &str) -> Vec<(String, SecretSource)> {
    let values = named_values(fields, list).into_iter();
    let read = |NamedValue { name, value }| endpoint::secret_source(fields, list, value).map(|source| (name, source));
    values.filter_map(read).collect()
}
