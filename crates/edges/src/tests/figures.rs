//! `/metrics`, read by a strict parser.

use std::collections::{BTreeMap, BTreeSet};

use bosun_engine::metrics::{FAMILIES, Family, FamilyKind};

use super::world::{TestServer, calculating, with_calculator};
use crate::http::metrics;

const PAGE: &str = include_str!("../../../../docs/metrics.md");

fn all_families() -> Vec<Family> {
    FAMILIES.iter().chain(metrics::FAMILIES).copied().collect()
}

/// Samples by name with labels.
fn parse(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with('\n'), "the last line ends");
    let mut samples = BTreeMap::new();
    let mut families: BTreeSet<&str> = BTreeSet::new();
    let mut current: Option<(&str, &str)> = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help has a text");
            assert!(!help.is_empty() && families.insert(name), "{name} comes once, with a help");
            let kind =
                lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect("its type follows");
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            current = Some((name, kind));
            continue;
        }
        let (family, kind) = current.expect("a sample belongs to a family");
        let (series, value) = line.rsplit_once(' ').expect("a sample has a value");
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').expect("labels end")),
            None => (series, ""),
        };
        let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.iter().any(|suffix| name == format!("{family}{suffix}")), "{name} is listed under {family}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
        check_labels(labels);
        let value: f64 = value.parse().expect("a number");
        assert!(value >= 0.0, "{line}");
        assert!(samples.insert(series.to_owned(), value).is_none(), "{series} comes once");
    }
    samples
}

fn check_labels(labels: &str) {
    let mut rest = labels;
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").expect("a label has a value");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let end = after.find('"').expect("a value ends");
        assert!(!after[..end].contains('\\'), "nothing here needs an escape");
        rest = after[end + 1..].strip_prefix(',').unwrap_or(&after[end + 1..]);
    }
}

fn check_histograms(samples: &BTreeMap<String, f64>) {
    for (series, count) in samples.iter().filter(|(series, _)| series.contains("_count")) {
        let (name, labels) = series.split_once("_count").expect("it was found by that");
        let labels = labels.trim_matches(['{', '}']);
        let prefix = format!("{name}_bucket{{{labels}{}le=", if labels.is_empty() { "" } else { "," });
        let mut buckets: Vec<(f64, f64)> = samples
            .iter()
            .filter_map(|(series, value)| {
                let bound = series.strip_prefix(&prefix)?.trim_matches(['"', '}']);
                Some((bound.replace("+Inf", "inf").parse().expect("a bound"), *value))
            })
            .collect();
        buckets.sort_by(|left, right| left.0.total_cmp(&right.0));
        assert!(buckets.windows(2).all(|pair| pair[0].1 <= pair[1].1), "{series}: buckets add up");
        assert_eq!(
            buckets.last().map(|(bound, value)| (bound.is_infinite(), *value)),
            Some((true, *count)),
            "{series}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn figures_are_what_happened() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=5s", &with_calculator("a")).await.ok();
    world.post("/v1/queries?wait=5s", &with_calculator("b")).await.ok();
    let body = serde_json::json!({"toolName": "calculator", "toolResult": "2108", "wait": "5s"});
    world.post("/v1/queries/a/tool-result", &body).await.ok();
    let other = serde_json::json!({"toolName": "calculator", "toolResult": "other"});
    assert_eq!(world.post("/v1/queries/a/tool-result", &other).await.status, 409);
    assert_eq!(world.get("/v1/queries/nobody-knows-this-name").await.status, 404);
    assert_eq!(world.get("/no/such/route").await.status, 404);
    let answer = world.get("/metrics").await;
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.body.as_str().expect("a text").to_owned();
    let samples = parse(&text);
    check_histograms(&samples);
    for (series, expect) in [
        ("bosun_queries_created_total", 2.0),
        ("bosun_queries_ended_total{state=\"completed\"}", 1.0),
        ("bosun_queries{state=\"waiting\"}", 1.0),
        ("bosun_queries{state=\"running\"}", 0.0),
        ("bosun_calls_total{kind=\"external\",outcome=\"success\"}", 1.0),
        ("bosun_deliveries_refused_total", 1.0),
        ("bosun_model_requests_total{model=\"default\",outcome=\"success\"}", 3.0),
        ("bosun_sse_streams", 0.0),
        ("bosun_http_requests_total{method=\"POST\",route=\"/v1/queries\",status=\"200\"}", 2.0),
        ("bosun_http_requests_total{method=\"GET\",route=\"none\",status=\"404\"}", 1.0),
        ("bosun_http_requests_total{method=\"GET\",route=\"/v1/queries/{name}\",status=\"404\"}", 1.0),
    ] {
        assert_eq!(samples.get(series), Some(&expect), "{series}\n{text}");
    }
    assert!(!text.contains("nobody-knows"), "labels are not a client's to choose");
    assert!(samples["process_resident_memory_bytes"] > 1e6);
}

#[tokio::test(start_paused = true)]
async fn the_page_lists_every_family_and_no_other() {
    let world = TestServer::new(calculating()).await;
    world.post("/v1/queries?wait=5s", &with_calculator("a")).await.ok();
    let text = world.get("/metrics").await.body.as_str().expect("a text").to_owned();
    let families = all_families();
    let served: Vec<_> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).map(|(name, _)| name).collect();
    assert_eq!(served, families.iter().map(|family| family.name).collect::<Vec<_>>());
    let rows: Vec<_> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    let expect: Vec<_> = families.iter().map(Family::to_row).collect();
    assert_eq!(rows, expect, "docs/metrics.md lists what is served:\n{}", expect.join("\n"));
    assert!(families.iter().all(|family| (family.kind == FamilyKind::Counter) == family.name.ends_with("_total")));
}

#[tokio::test(start_paused = true)]
async fn a_request_keeps_the_id_that_it_brings() {
    let world = TestServer::new(calculating()).await;
    let answer = world.send("GET", "/health", &[("x-request-id", "mine-1")], "").await;
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let (first, second) = (world.get("/health").await, world.get("/health").await);
    assert!(first.header("x-request-id").is_some() && first.header("x-request-id") != second.header("x-request-id"));
    for bad in ["", "a b", "a\"b", &"x".repeat(129)] {
        let answer = world.send("GET", "/health", &[("x-request-id", bad)], "").await;
        assert_ne!(answer.header("x-request-id"), Some(bad), "{bad:?}");
    }
}
