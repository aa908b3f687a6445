//! Agent cards: where clients find them, what they say, and how they are cached.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::watch;

use super::{MATH, TOOLS, V1, saying};
use crate::{
    auth::{
        Namespaces, Policy, Rights,
        jwt::{Issuer, Jwks},
        keys::Keyring,
    },
    tests::{
        authorization::{keys, policy},
        world::assert_answer,
    },
};

#[tokio::test(start_paused = true)]
async fn a_card_says_where_the_agent_is_and_what_it_can_do() {
    let world = saying("Hello!").await;
    let path = "/a2a/agents/default/research-assistant/.well-known/agent-card.json";
    let mut card = world.send("GET", path, V1, "").await.ok();
    card["version"] = json!("[version]");
    assert_answer("a2a_card", &card);
    let mut hybrid = world.get(path).await.ok();
    hybrid["version"] = json!("[version]");
    assert_answer("a2a_card_of_both", &hybrid);
    assert_eq!(
        world.get(&path.replace("agent-card", "agent")).await.ok(),
        world.get(path).await.ok(),
        "the older path"
    );
}

#[tokio::test(start_paused = true)]
async fn the_card_of_the_server_is_that_of_its_default_agent() {
    let world = saying("Hello!").await;
    let card = world.get("/.well-known/agent-card.json").await.ok();
    assert_eq!((&card["name"], &card["url"]), (&json!("math-assistant"), &json!("http://localhost:8080/a2a")));
    let listed = world.get("/a2a/agents").await.ok();
    let names: Vec<_> =
        listed["agents"].as_array().unwrap().iter().map(|agent| agent["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"math-assistant") && names.contains(&"research-assistant"), "{names:?}");
    for agent in listed["agents"].as_array().unwrap() {
        let path = agent["cardUrl"].as_str().unwrap().strip_prefix("http://localhost:8080").unwrap();
        assert_eq!(world.get(path).await.ok()["name"], agent["name"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_may_be_cached() {
    let world = saying("Hello!").await;
    let first = world.get("/.well-known/agent-card.json").await;
    assert_eq!(first.header("cache-control"), Some("public, max-age=60"));
    assert!(first.header("last-modified").unwrap().ends_with(" GMT"));
    let tag = first.header("etag").unwrap().to_owned();
    let again = world.send("GET", "/.well-known/agent-card.json", &[("if-none-match", &tag)], "").await;
    assert_eq!((again.status.as_u16(), &again.body), (304, &Value::Null));
    for known in [format!("\"other\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
        let again = world.send("GET", "/.well-known/agent-card.json", &[("if-none-match", &known)], "").await;
        assert_eq!(again.status, 304, "{known}");
    }
    let other =
        world.send("GET", "/.well-known/agent-card.json", &[("if-none-match", &tag), ("a2a-version", "1.0")], "").await;
    assert_eq!(other.status, 200, "a card of another version is another card");
}

#[tokio::test(start_paused = true)]
async fn skills_are_the_agent_those_of_its_annotation_and_its_tools() {
    let path = "/a2a/agents/default/messenger/.well-known/agent-card.json";
    let card = saying("Hello!").await.send("GET", path, V1, "").await.ok();
    let ids: Vec<_> = card["skills"].as_array().unwrap().iter().map(|skill| &skill["id"]).collect();
    assert_eq!(ids, ["messenger", "sum", "messenger/ask_client"], "{card}");
    assert_eq!(card["skills"][1], json!({"id": "sum", "name": "Sum", "description": "Adds", "tags": ["math"]}));
    let guarded = saying("Hello!").await.guarded(&policy(keys()));
    let headers = [("authorization", "Bearer sk-own"), ("a2a-version", "1.0")];
    let card = guarded.send("GET", path, &headers, "").await.ok();
    assert_eq!(card["skills"].as_array().unwrap().len(), 1, "{card}");
}

#[tokio::test(start_paused = true)]
async fn an_extension_is_declared_and_echoed_when_it_is_activated() {
    let world = saying("Hello!").await;
    let card = world.get("/.well-known/agent-card.json").await.ok();
    let extension = &card["capabilities"]["extensions"][0];
    assert_eq!((&extension["uri"], &extension["required"]), (&json!(TOOLS), &json!(false)));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
    let headers = [("content-type", "application/json"), ("a2a-version", "1.0"), ("a2a-extensions", TOOLS)];
    let reply = world.send("POST", MATH, &headers, body.clone()).await;
    assert_eq!(reply.header("a2a-extensions"), Some(TOOLS));
    assert_eq!(world.send("POST", MATH, V1, body).await.header("a2a-extensions"), None);
}

#[tokio::test(start_paused = true)]
async fn a_server_with_keys_shows_its_tools_to_callers_with_one() {
    let world = saying("Hello!").await.guarded(&policy(keys()));
    let public = world.get("/.well-known/agent-card.json").await.ok();
    assert_eq!(
        (&public["supportsAuthenticatedExtendedCard"], &public["skills"].as_array().unwrap().len()),
        (&json!(true), &1)
    );
    let path = "/a2a/agents/default/research-assistant/extendedAgentCard";
    assert_eq!(world.get(path).await.status, 401);
    let headers = [("authorization", "Bearer sk-own"), ("a2a-version", "1.0")];
    let extended = world.send("GET", path, &headers, "").await.ok();
    assert_eq!(extended["skills"][1]["name"], "database_query");
    assert_eq!(extended["securityRequirements"][0], json!({"schemes": {"bearer": {"list": []}}}));
    // An open server has nothing to add to its card.
    let open = saying("Hello!").await;
    let refused = open.send("GET", path, V1, "").await;
    assert_eq!(
        (refused.status.as_u16(), &refused.body["error"]["details"][0]["reason"]),
        (400, &json!("UNSUPPORTED_OPERATION"))
    );
}

/// An identity provider whose keys are not there yet.
fn issuer() -> Issuer {
    Issuer {
        id: "corp".into(),
        issuer: "https://id.example.org".into(),
        audience: "bosun".into(),
        user_claim: "sub".into(),
        namespaces_claim: None,
        rights_claim: None,
        namespaces: Namespaces::All,
        rights: Rights::all(),
        leeway: Duration::ZERO,
        keys: Jwks::default(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_card_names_the_credentials_that_the_server_accepts() {
    let bearer = json!({"scheme": "Bearer", "description": "The secret of a key"});
    let basic = json!({"scheme": "Basic", "description": "Both halves of a key"});
    let token = json!({"scheme": "Bearer", "description": "A token of the identity provider", "bearerFormat": "JWT"});
    let revoked = || keys().into_iter().filter(|key| key.revoked).collect();
    for (keys, issuers, expect) in [
        (keys(), vec![], vec![("bearer", &bearer), ("basic", &basic)]),
        (Vec::new(), vec![], vec![("bearer", &bearer), ("basic", &basic)]),
        (keys(), vec![issuer()], vec![("bearer", &bearer), ("basic", &basic), ("token", &token)]),
        (Vec::new(), vec![issuer()], vec![("token", &token)]),
        (revoked(), vec![issuer()], vec![("token", &token)]),
    ] {
        let policy = watch::Sender::new(Arc::new(Policy::guarded(Keyring::new(keys), issuers)));
        let world = saying("Hello!").await.guarded(&policy);
        let new = world.send("GET", "/.well-known/agent-card.json", V1, "").await.ok();
        let both = world.get("/.well-known/agent-card.json").await.ok();
        let requirements: Vec<_> = expect.iter().map(|(name, _)| json!({"schemes": {*name: {"list": []}}})).collect();
        assert_eq!(new["securityRequirements"], json!(requirements), "{new}");
        let security: Vec<_> = expect.iter().map(|(name, _)| json!({*name: []})).collect();
        assert_eq!(both["security"], json!(security), "{both}");
        for (name, scheme) in &expect {
            assert_eq!(new["securitySchemes"][name], json!({"httpAuthSecurityScheme": scheme}), "{new}");
            let old = &both["securitySchemes"][name];
            assert_eq!(old["httpAuthSecurityScheme"], **scheme, "{both}");
            let lowercase = json!(scheme["scheme"].as_str().unwrap().to_lowercase());
            assert_eq!((&old["type"], &old["scheme"]), (&json!("http"), &lowercase), "{both}");
            assert_eq!((&old["bearerFormat"], &old["description"]), (&scheme["bearerFormat"], &scheme["description"]));
        }
        assert_eq!(new["securitySchemes"].as_object().unwrap().len(), expect.len(), "{new}");
    }
}
