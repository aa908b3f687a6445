//! A2A over gRPC in the real process: the setting, and what a build without the feature says. The service itself is
//! tested with a client of its own in `bosun-edges`.

use crate::program::{bosun, run, stderr};

#[cfg(not(feature = "grpc"))]
#[tokio::test]
async fn a_build_without_grpc_says_how_to_get_one() {
    let refused = run(bosun().args(["serve", "--grpc-listen", "127.0.0.1:0"])).await;
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("this build has no `--grpc-listen`") && message.contains("--features grpc"), "{message}");
}

#[tokio::test]
async fn grpc_needs_keys_on_other_addresses_too() {
    let refused = run(bosun().args(["serve", "--grpc-listen", "0.0.0.0:0"])).await;
    let message = stderr(&refused);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains("`--auth keys.toml`") || message.contains("--features grpc"), "{message}");
}

#[cfg(feature = "grpc")]
#[tokio::test]
async fn the_card_says_where_grpc_is_and_connections_are_http_2() {
    use crate::{
        program::{Server, free_port, workspace},
        support::client::http,
    };
    let address = format!("127.0.0.1:{}", free_port());
    let manifests = workspace().join("examples/agents");
    let server = Server::start_in(&manifests, &["--grpc-listen", &address]).await;
    let asked = http().get(format!("{}/.well-known/agent-card.json", server.base)).header("a2a-version", "1.0");
    let card: serde_json::Value = serde_json::from_str(&asked.send().await.unwrap().text().await.unwrap()).unwrap();
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let grpc = interfaces.iter().find(|interface| interface["protocolBinding"] == "GRPC").unwrap();
    assert_eq!((grpc["url"].as_str(), grpc["protocolVersion"].as_str()), (Some(address.as_str()), Some("1.0")));
    assert!(grpc["tenant"].as_str().unwrap().starts_with("default/"), "{grpc}");
    let plain = http().get(format!("http://{address}/health")).send().await;
    assert!(plain.is_err(), "HTTP/1.1 is not served there");
}
