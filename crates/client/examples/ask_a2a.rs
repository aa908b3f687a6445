//! Asks an agent over A2A, and brings a calculator.
//!
//! With a server on this machine (`make serve`): `cargo run -p bosun-client --example ask_a2a`. Any agent of A2A 1.0 whose
//! card has the client-tools extension will do: `A2A_AGENT=https://… cargo run …`.

use std::io::Write as _;

use bosun_client::{A2aAgent, ClientError, ClientTools, OpenCall};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = std::env::var("A2A_AGENT").unwrap_or_else(|_| "http://127.0.0.1:8080".to_owned());
    let answer = ask(&agent).await?;
    writeln!(std::io::stdout(), "{answer}")?;
    Ok(())
}

pub(crate) async fn ask(url: &str) -> Result<String, ClientError> {
    let parameters = json!({
        "type": "object",
        "properties": {"expression": {"type": "string", "description": "A product, such as 0.25 * 8432"}},
        "required": ["expression"],
    });
    let tools = ClientTools::new().with("calculator", "Multiplies two numbers", parameters, multiply);
    let agent = A2aAgent::open(url, None).await?;
    let answer = agent.ask("What is 25% of 8,432?").tools(&tools).await?;
    Ok(answer.text)
}

async fn multiply(call: OpenCall) -> Result<f64, String> {
    let expression = call.arguments["expression"].as_str().unwrap_or_default();
    let factors: Result<Vec<f64>, _> = expression.split('*').map(|factor| factor.trim().parse()).collect();
    // The model reads the message, and can do better.
    let factors = factors.map_err(|error| format!("`{expression}` is not a product of numbers: {error}"))?;
    Ok(factors.iter().product())
}
