//! Results of tool calls that clients run: delivered in a JSON body, uploaded as they are, downloaded.

pub(crate) mod delivery;
pub(crate) mod download;
pub(crate) mod upload;
