//! A client's idempotency key, under which it may repeat a request.

use bosun_core::ceiling;
use serde_json::json;

use super::{HeaderParameter, ParamGroup};

const MAX_BYTES: usize = ceiling::IDEMPOTENCY_KEY_BYTES;

/// `Idempotency-Key`
#[derive(Clone, Debug, Default)]
pub(crate) struct IdempotencyKey {
    pub(crate) key: Option<String>,
}

impl ParamGroup for IdempotencyKey {
    const HEADERS: &'static [HeaderParameter<Self>] = &[HeaderParameter {
        name: "Idempotency-Key",
        description: "A key under which the same request may be repeated",
        schema: || json!({"type": "string", "pattern": format!("^[!-~]{{1,{MAX_BYTES}}}$")}),
        read: |this, value| match value.to_str() {
            Ok(key) if (1..=MAX_BYTES).contains(&key.len()) => {
                this.key = Some(key.to_owned());
                Ok(())
            }
            _ => Err(format!("must have 1 to {MAX_BYTES} visible ASCII characters").into()),
        },
    }];
}
