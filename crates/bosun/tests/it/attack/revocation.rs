//! M11: a key that is revoked while identity providers do not answer.

use std::time::{Duration, Instant};

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

use super::{
    Attack,
    target::{Keys, Target},
};
use crate::support::server::World;

/// The promise of security.md, plus the time to run `bosun keys revoke` and a request.
const REVOKED: Duration = Duration::from_secs(3);
const PROVIDERS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_ends_although_identity_providers_hang() {
    let mut attack = Attack::begin("m11_hung_identity_providers");
    let world = World::new();
    let keys = Keys::new(&world);
    let key = keys.create("ada", "default", &["read"]).await;
    let mut providers = JoinSet::new();
    let mut issuers = String::new();
    for number in 0..PROVIDERS {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        // Accepts connections, keeps them, and sends nothing.
        providers.spawn(async move {
            let mut kept = Vec::new();
            while let Ok(connection) = listener.accept().await {
                kept.push(connection);
            }
        });
        issuers += &format!(
            "\n[[issuer]]\nid = \"p{number}\"\nissuer = \"https://p{number}.example.org\"\naudience = \"bosun\"\n\
             jwks = \"http://{address}/jwks\"\nrights_claim = \"scope\"\nnamespaces = [\"default\"]\n"
        );
    }
    let file = keys.path().to_owned();
    let text = std::fs::read_to_string(&file).expect("the keys");
    std::fs::write(&file, text + &issuers).expect("the keys");
    let mut target = Target::start_in(world.with(&["--auth", &file])).await;
    target.key = Some(key.clone());
    let whoami = target.get("/v1/whoami").await.expect("an answer");
    assert_eq!(whoami.status, 200, "{}", whoami.body);

    // A client without a key makes the server fetch the providers' keys.
    for number in 0..PROVIDERS {
        let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": "EdDSA", "kid": "unknown", "typ": "JWT"}));
        let claims = json!({"iss": format!("https://p{number}.example.org"), "aud": "bosun", "sub": "x", "exp": 4_000_000_000_u64});
        let token = format!("{header}.{}.{}", part(claims), BASE64_URL_SAFE_NO_PAD.encode([7; 64]));
        let request = target.http.get(format!("{}/v1/whoami", target.server.base)).bearer_auth(token);
        // It may wait for the provider; this client does not.
        let _ = tokio::time::timeout(Duration::from_millis(300), request.send()).await;
    }
    keys.run(&["revoke", "ada"]).await;
    let revoked = Instant::now();
    let mut status = 200;
    while status == 200 && revoked.elapsed() < Duration::from_secs(30) {
        let reply = target.get("/v1/whoami").await.expect("an answer");
        status = reply.status;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = revoked.elapsed();
    attack.expect(status == 401 && took <= REVOKED, || format!("after {took:?} the key was answered with {status}"));
    attack.figure("revoked_ms", json!(took.as_millis()));
    providers.shutdown().await;
    attack.finish();
}
