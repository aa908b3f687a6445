//! Keys and tokens from an operator's and a client's view: the file, the program, a running server.

use std::{
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use axum::{Json, Router, routing::get};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::Child,
};

use crate::program::{bosun, run, stderr, stdout, workspace};

/// A directory with a key file, and operations on it.
struct KeyFileWorld {
    directory: tempfile::TempDir,
}

impl KeyFileWorld {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("keys.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap()
    }

    async fn keys(&self, arguments: &[&str]) -> std::process::Output {
        run(bosun().arg("keys").args(arguments).arg("--auth").arg(self.file())).await
    }

    /// Creates a key and returns both its halves.
    async fn create(&self, arguments: &[&str]) -> (String, String) {
        let output = self.keys(&[&["create", "--json"], arguments].concat()).await;
        assert!(output.status.success(), "{}", stderr(&output));
        let key: Value = serde_json::from_str(&stdout(&output)).unwrap();
        let half = |name: &str| key[name].as_str().unwrap().to_owned();
        (half("public_key"), half("secret_key"))
    }

    async fn serve(&self) -> Server {
        Server::start(self.directory.path(), &self.file()).await
    }
}

struct Server {
    base: String,
    child: Child,
}

impl Server {
    async fn start(directory: &Path, keys: &Path) -> Self {
        let mut child = bosun()
            .args(["serve", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--manifests"])
            .arg(workspace().join("examples/agents"))
            .arg("--data")
            .arg(directory.join("data"))
            .arg("--auth")
            .arg(keys)
            .env("RUST_LOG", "trace")
            // Keys, and a provider on this machine, need no certificates.
            .env("SSL_CERT_FILE", "/dev/null")
            .env("SSL_CERT_DIR", "/nowhere")
            // No process listens there: a request through this proxy would reach no provider.
            .env("http_proxy", "http://127.0.0.1:1")
            .env("ALL_PROXY", "http://127.0.0.1:1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(directory.join("log")).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next_line().await.unwrap().expect("the server says where it listens");
        let base = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
        Self { base, child }
    }

    async fn get(&self, path: &str, authorization: &str) -> (u16, Value) {
        let request = http().get(format!("{}{path}", self.base)).header("authorization", authorization);
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    /// Stops it and waits for its end: the next one needs its data.
    async fn stop(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().await.unwrap().success());
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().unwrap().to_string();
        assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
    }
}

/// The issuer of [`token`]s; its keys are at `{url}`.
const ISSUER: &str = r#"
[[issuer]]
id = "corp"
issuer = "https://id.example.org"
audience = "bosun"
jwks = "{url}"
rights_claim = "scope"
namespaces = ["default"]
"#;

impl KeyFileWorld {
    /// Accepts the tokens that this provider has signed.
    fn trust(&self, provider: &Provider) {
        std::fs::write(self.file(), ISSUER.replace("{url}", &provider.url)).unwrap();
        std::fs::set_permissions(self.file(), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

fn http() -> reqwest::Client {
    // The process has one crypto provider; an error means that it is already installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked_and_the_rest_of_the_file_stays() {
    let world = KeyFileWorld::new();
    let (public, secret) =
        world.create(&["ci", "--namespace", "team-a", "--right", "read", "--may-act-for", "*"]).await;
    assert!(public.starts_with("pk-ark-") && secret.starts_with("sk-ark-"), "{public} {secret}");
    assert_eq!(std::fs::metadata(world.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!world.text().contains(&secret) && world.text().contains(&public));
    let noted = world.text() + "\n# a note of the operator\n";
    std::fs::write(world.file(), noted).unwrap();
    world.create(&["backup", "--expires", "2160h"]).await;

    let output = world.keys(&["create", "ci"]).await;
    assert!(stderr(&output).contains("there is already a key `ci`"), "{}", stderr(&output));
    let output = world.keys(&["revoke", "ci"]).await;
    assert!(stdout(&output).contains("key ci is revoked"), "{}", stderr(&output));
    let output = world.keys(&["revoke", "ci"]).await;
    assert!(stderr(&output).contains("has been revoked already"), "{}", stderr(&output));
    let output = world.keys(&["revoke", "missing"]).await;
    assert!(stderr(&output).contains("there is no key `missing`"), "{}", stderr(&output));

    let listed: Value = serde_json::from_str(&stdout(&world.keys(&["list", "--json"]).await)).unwrap();
    let expected = |name: &str| listed.as_array().unwrap().iter().find(|key| key["id"] == name).unwrap().clone();
    assert_eq!(expected("ci")["state"], "revoked");
    assert_eq!(expected("ci")["namespaces"], json!(["team-a"]));
    assert_eq!((&expected("ci")["rights"], &expected("ci")["may_act_for"]), (&json!(["read"]), &json!(["*"])));
    assert_eq!(expected("backup")["state"], "active");
    assert!(expected("backup")["expires_at"].is_string());
    assert!(world.text().contains("# a note of the operator"), "{}", world.text());
    assert_eq!(std::fs::metadata(world.file()).unwrap().permissions().mode() & 0o777, 0o600);
    let text = stdout(&world.keys(&["list"]).await);
    assert!(text.lines().count() == 2 && !text.contains("sk-ark-"), "{text}");
}

/// A server that runs as another user reads the file as a member of its group. If a changed file were readable by its
/// owner only, a revoked key would stay in force.
#[tokio::test]
async fn a_changed_file_stays_as_readable_as_it_was() {
    let world = KeyFileWorld::new();
    world.create(&["ci"]).await;
    std::fs::set_permissions(world.file(), std::fs::Permissions::from_mode(0o640)).unwrap();
    // Only root can change the owner of a file.
    let given_away = std::os::unix::fs::chown(world.file(), Some(54_321), Some(54_322)).is_ok();
    let before = std::fs::metadata(world.file()).unwrap();
    assert!(world.keys(&["revoke", "ci"]).await.status.success());
    let after = std::fs::metadata(world.file()).unwrap();
    assert_eq!(after.permissions().mode() & 0o777, 0o640);
    assert_eq!((after.uid(), after.gid()), (before.uid(), before.gid()), "{given_away}");
    assert!(world.text().contains("revoked = "), "{}", world.text());
}

#[tokio::test]
async fn keys_that_are_created_concurrently_are_all_kept() {
    let world = KeyFileWorld::new();
    let names: Vec<_> = (0..8).map(|number| format!("key-{number}")).collect();
    futures_util::future::join_all(names.iter().map(async |name| world.create(&[name]).await)).await;
    for name in &names {
        assert!(world.text().contains(&format!("id = \"{name}\"")), "{name}");
    }
}

#[tokio::test]
async fn a_client_needs_a_key_and_its_secret_is_nowhere_in_the_log() {
    let world = KeyFileWorld::new();
    let (public, secret) = world.create(&["ci", "--right", "read", "--right", "run", "--right", "deliver"]).await;
    let server = world.serve().await;
    let query = async |name: &str, key: Option<&str>| {
        let mut command = bosun();
        command.args([
            "query",
            "--agent",
            "math-assistant",
            "What is 25% of 8,432?",
            "--name",
            name,
            "--server",
            &server.base,
        ]);
        command.args(["--tools"]).arg(workspace().join("examples/tools.json")).args(["--run", "calculator=echo 2108"]);
        if let Some(key) = key {
            command.env("BOSUN_KEY", key);
        }
        run(&mut command).await
    };
    let refused = query("a", None).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("Missing or invalid authorization header [unauthorized]"),
        "{}",
        stderr(&refused)
    );
    let refused = query("a", Some("sk-ark-wrong")).await;
    assert!(stderr(&refused).contains("[unauthorized]"), "{}", stderr(&refused));
    for (name, key) in [("b", secret.clone()), ("c", format!("{public}:{secret}"))] {
        let output = query(name, Some(&key)).await;
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let (status, _) = server.get("/v1/namespaces/other/queries", &format!("Bearer {secret}")).await;
    assert_eq!(status, 403);
    let (status, me) = server.get("/v1/whoami", &format!("Bearer {secret}")).await;
    assert_eq!((status, &me["key"], &me["rights"]), (200, &json!("ci"), &json!(["read", "run", "deliver"])));
    drop(server);
    let log = std::fs::read_to_string(world.directory.path().join("log")).unwrap();
    assert!(log.contains("DEBUG"), "everything is logged: {log}");
    assert!(!log.contains(&secret) && !log.contains("sk-ark-wrong"), "the secret is in the log");
}

#[tokio::test]
async fn a_query_without_a_namespace_is_one_of_the_keys_own() {
    let world = KeyFileWorld::new();
    let (_, secret) = world.create(&["ci", "--namespace", "team-a", "--namespace", "default"]).await;
    let server = world.serve().await;
    let ask = async |further: &[&str]| {
        let mut command = bosun();
        command.args(["query", "--agent", "math-assistant", "What is 25% of 8,432?", "--server", &server.base]);
        run(command.args(further).env("BOSUN_KEY", &secret)).await
    };
    // The agents of the examples are in `default`, and not in the key's own namespace.
    let refused = ask(&[]).await;
    assert!(stderr(&refused).contains("Agent 'math-assistant' not found in namespace team-a"), "{}", stderr(&refused));
    let asked = ask(&["--namespace", "default", "--name", "q", "--timeout", "20s"]).await;
    assert!(!stderr(&asked).contains("namespace"), "{}", stderr(&asked));
    let (status, _) = server.get("/v1/namespaces/default/queries/q", &format!("Bearer {secret}")).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn a_key_that_may_not_list_agents_can_query_one() {
    let world = KeyFileWorld::new();
    let (_, secret) = world.create(&["ci", "--right", "run"]).await;
    let server = world.serve().await;
    let chat = async |agent: &str, key: &str| {
        let mut command = bosun();
        command.args(["chat", "--agent", agent, "--server", &server.base]).env("BOSUN_KEY", key);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // A refused program reads nothing.
        let _ = child.stdin.take().unwrap().write_all(b"Hello\n").await;
        let output = child.wait_with_output().await.unwrap();
        (output.status.code(), stdout(&output), stderr(&output))
    };
    let (code, answer, log) = chat("math-assistant", &secret).await;
    assert!(code == Some(0) && answer.starts_with("I am a script."), "{answer}{log}");
    let (code, _, log) = chat("nothing", &secret).await;
    assert!(code == Some(1) && log.contains("[agent_not_found]"), "{log}");
    let (code, _, log) = chat("math-assistant", "sk-ark-unknown").await;
    assert!(code == Some(1) && log.contains("[unauthorized]"), "{log}");
}

#[tokio::test]
async fn a_revoked_key_is_refused_and_its_open_requests_are_ended() {
    let world = KeyFileWorld::new();
    let (_, secret) = world.create(&["ci"]).await;
    let (_, other) = world.create(&["other"]).await;
    let server = world.serve().await;
    let authorization = format!("Bearer {secret}");
    let body = json!({
        "name": "q", "input": "What is 25% of 8,432?", "target": {"type": "agent", "name": "math-assistant"},
        "externalTools": [{"name": "calculator", "parameters": {"type": "object", "properties": {}}}],
    });
    let create = http().post(format!("{}/v1/queries?wait=20s", server.base)).json(&body);
    assert!(create.header("authorization", &authorization).send().await.unwrap().status().is_success());
    let events = http().get(format!("{}/v1/queries/q/events", server.base));
    let mut events = events.header("authorization", &authorization).send().await.unwrap();
    assert!(events.chunk().await.unwrap().is_some(), "the stream is open");

    // An invalid file revokes nothing.
    let good = world.text();
    std::fs::write(world.file(), format!("{good}\n[[key]]\nid = \"broken\"\n")).unwrap();
    server.signal("-HUP");
    assert_eq!(server.get("/v1/queries/q", &authorization).await.0, 200);
    std::fs::write(world.file(), good).unwrap();

    let revoked = Instant::now();
    assert!(world.keys(&["revoke", "ci"]).await.status.success());
    while events.chunk().await.unwrap().is_some() {}
    assert!(revoked.elapsed() < Duration::from_secs(10), "{:?}", revoked.elapsed());
    assert_eq!(server.get("/v1/queries/q", &authorization).await.0, 401);
    assert_eq!(server.get("/v1/queries/q", &format!("Bearer {other}")).await.0, 200);
}

#[tokio::test]
async fn changes_of_keys_are_in_the_audit_log() {
    let world = KeyFileWorld::new();
    world.create(&["ci"]).await;
    let (_, auditor) = world.create(&["auditor", "--namespace", "*", "--right", "audit"]).await;
    let server = world.serve().await;
    let authorization = format!("Bearer {auditor}");
    let mut seen = 0;
    // Polls until the log has exactly the expected records.
    let mut check_records = async |expect: &[(&str, &str)]| {
        server.signal("-HUP");
        let began = Instant::now();
        loop {
            let (status, page) = server.get("/v1/audit?namespace=bosun-server", &authorization).await;
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            let text = |item: &Value, name: &str| item[name].as_str().unwrap().to_owned();
            let recorded: Vec<_> =
                items.iter().rev().map(|item| (text(item, "action"), text(item, "detail"))).skip(seen).collect();
            if recorded.len() >= expect.len() {
                let recorded: Vec<_> =
                    recorded.iter().map(|(action, detail)| (action.as_str(), detail.as_str())).collect();
                assert_eq!(recorded, expect);
                seen += recorded.len();
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(20), "{recorded:?} and not {expect:?}");
        }
    };
    world.create(&["new"]).await;
    check_records(&[("keys.reloaded", "3 keys, 0 issuers"), ("key.added", "new")]).await;
    let good = world.text();
    std::fs::write(world.file(), format!("{good}\n[[key]]\nid = \"broken\"\n")).unwrap();
    check_records(&[("keys.refused", "5 faults in the file")]).await;
    std::fs::write(world.file(), &good).unwrap();
    check_records(&[("keys.reloaded", "3 keys, 0 issuers")]).await;
    assert!(world.keys(&["revoke", "ci"]).await.status.success());
    check_records(&[("keys.reloaded", "3 keys, 0 issuers"), ("key.revoked", "ci")]).await;
    let (before, of_new) = good.split_at(good.rfind("[[key]]").unwrap());
    assert!(of_new.contains("id = \"new\""), "{good}");
    std::fs::write(world.file(), before).unwrap();
    check_records(&[("keys.reloaded", "2 keys, 0 issuers"), ("key.added", "ci"), ("key.revoked", "new")]).await;
    // A change of the accepted issuers, and of their rights, is recorded as well.
    let issuer = |audience: &str| {
        let text = "id = \"corp\"\nissuer = \"https://id.example.org\"\njwks = \"jwks.json\"\n";
        format!("{before}\n[[issuer]]\n{text}audience = \"{audience}\"\n")
    };
    std::fs::write(world.file(), issuer("bosun")).unwrap();
    check_records(&[("keys.reloaded", "2 keys, 1 issuers"), ("key.added", "corp")]).await;
    std::fs::write(world.file(), issuer("everybody")).unwrap();
    check_records(&[("keys.reloaded", "2 keys, 1 issuers"), ("key.changed", "corp")]).await;
    std::fs::write(world.file(), before).unwrap();
    check_records(&[("keys.reloaded", "2 keys, 0 issuers"), ("key.revoked", "corp")]).await;
}

#[tokio::test]
async fn a_file_of_keys_that_others_can_change_is_refused() {
    let world = KeyFileWorld::new();
    world.create(&["ci"]).await;
    std::fs::set_permissions(world.file(), std::fs::Permissions::from_mode(0o666)).unwrap();
    let output = run(bosun().args(["serve", "--listen", "0.0.0.0:0", "--auth"]).arg(world.file())).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("can be changed by users other than its owner"), "{}", stderr(&output));
    let output = run(bosun().args(["serve", "--listen", "0.0.0.0:0", "--auth", "/nowhere/keys.toml"])).await;
    assert!(stderr(&output).contains("`bosun keys create` makes one"), "{}", stderr(&output));
}

/// An identity provider: its keys under a URL, and tokens that it signs.
struct Provider {
    url: String,
    keys: Arc<Mutex<Vec<Value>>>,
    fetched: Arc<AtomicUsize>,
    serving: tokio::task::JoinHandle<()>,
}

impl Provider {
    async fn start() -> Self {
        let (keys, fetched) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let (published, counted) = (Arc::clone(&keys), Arc::clone(&fetched));
        let answer = async move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Json(json!({ "keys": *published.lock().unwrap() }))
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let router = Router::new().route("/jwks", get(answer));
        let serving =
            tokio_util::task::TaskTracker::new().spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, keys, fetched, serving }
    }

    /// Publishes a new key next to the existing ones.
    fn rotate(&self, id: &str) -> Ed25519KeyPair {
        let document = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let x = BASE64_URL_SAFE_NO_PAD.encode(pair.public_key());
        self.keys.lock().unwrap().push(json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": x}));
        pair
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn token(pair: &Ed25519KeyPair, id: &str, scope: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({
        "iss": "https://id.example.org", "aud": "bosun", "sub": "alice", "exp": now + 600, "scope": scope,
    });
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&json!({"alg": "EdDSA", "kid": id})), encode(&claims));
    format!("Bearer {signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(pair.sign(signed.as_bytes())))
}

#[tokio::test]
async fn tokens_of_a_provider_are_accepted_and_its_new_keys_are_fetched() {
    let provider = Provider::start().await;
    let first = provider.rotate("first");
    let world = KeyFileWorld::new();
    world.trust(&provider);
    let server = world.serve().await;
    assert_eq!(provider.fetched.load(Ordering::Relaxed), 1);
    let (status, me) = server.get("/v1/whoami", &token(&first, "first", "openid bosun:read")).await;
    assert_eq!(
        (status, &me["key"], &me["user"], &me["rights"]),
        (200, &json!("corp"), &json!("alice"), &json!(["read"]))
    );
    assert_eq!(server.get("/v1/agents", &token(&first, "first", "bosun:read")).await.0, 200);
    assert_eq!(server.get("/v1/agents", &token(&first, "first", "openid")).await.1["error"]["code"], "right_missing");
    assert_eq!(server.get("/v1/agents", &token(&first, "unknown", "bosun:read")).await.0, 401);
    assert_eq!(provider.fetched.load(Ordering::Relaxed), 2, "an unknown key is asked for");

    // The next fetch has to wait: tokens with invented keys must not cause one each.
    let second = provider.rotate("second");
    for _ in 0..3 {
        assert_eq!(server.get("/v1/agents", &token(&second, "second", "bosun:read")).await.0, 401);
    }
    assert_eq!(provider.fetched.load(Ordering::Relaxed), 2);
    server.stop().await;
    let server = world.serve().await;
    let third = provider.rotate("third");
    assert_eq!(server.get("/v1/agents", &token(&third, "third", "bosun:read")).await.0, 200, "rotated while it runs");
}

/// Accepts connections and never answers.
async fn hung_provider() -> (String, tokio::task::JoinHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let held = tokio_util::task::TaskTracker::new().spawn(async move {
        let mut connections = Vec::new();
        loop {
            connections.push(listener.accept().await.unwrap());
        }
    });
    (url, held)
}

#[tokio::test]
async fn a_key_is_revoked_in_time_and_new_keys_are_fetched_whatever_other_providers_do() {
    let provider = Provider::start().await;
    let (url, hung) = hung_provider().await;
    let world = KeyFileWorld::new();
    let (_, secret) = world.create(&["ci"]).await;
    let mut text = world.text();
    // Fetched one after the other, they would take half a minute.
    for number in 0..6 {
        let issuer =
            ISSUER.replace("\"corp\"", &format!("\"hung-{number}\"")).replace("{url}", &format!("{url}/{number}"));
        text += &issuer;
    }
    text += &ISSUER.replace("{url}", &provider.url);
    std::fs::write(world.file(), text).unwrap();
    let server = world.serve().await;
    let pair = provider.rotate("rotated");
    let began = Instant::now();
    let signed = token(&pair, "rotated", "bosun:read");
    assert_eq!(server.get("/v1/agents", &signed).await.0, 200, "the others are still asked");
    assert_eq!(server.get("/v1/agents", &format!("Bearer {secret}")).await.0, 200);
    assert!(world.keys(&["revoke", "ci"]).await.status.success());
    while server.get("/v1/agents", &format!("Bearer {secret}")).await.0 != 401 {
        assert!(began.elapsed() < Duration::from_secs(15), "a provider was waited for");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    hung.abort();
}

#[tokio::test]
async fn a_change_of_the_file_keeps_tokens_valid_while_their_provider_is_unreachable() {
    let provider = Provider::start().await;
    let pair = provider.rotate("first");
    let world = KeyFileWorld::new();
    world.trust(&provider);
    let server = world.serve().await;
    assert_eq!(server.get("/v1/agents", &token(&pair, "first", "bosun:read")).await.0, 200);
    drop(provider);
    let (_, secret) = world.create(&["ci"]).await;
    server.signal("-HUP");
    while server.get("/v1/agents", &format!("Bearer {secret}")).await.0 == 401 {}
    assert_eq!(server.get("/v1/agents", &token(&pair, "first", "bosun:read")).await.0, 200);
}
