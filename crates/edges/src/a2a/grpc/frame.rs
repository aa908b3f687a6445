//! Frames of gRPC over HTTP/2: a byte that says whether a message is compressed, its length in four bytes, the message.
//!
//! A request of this service has one message. Compression is not supported, and clients are told so, as the protocol
//! requires. The status of an answer is in its trailers.

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, header},
    response::Response,
};
use bytes::{BufMut as _, BytesMut};
use futures_util::{Stream, StreamExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;

use super::{
    super::error::{A2aError, ErrorKind},
    GrpcStatus,
};
use crate::http::sse;

pub(super) const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");
const PREFIX_BYTES: usize = 5;

/// The message of a request, in the body of that request.
pub(super) fn read<'body>(headers: &HeaderMap, body: &'body [u8]) -> Result<&'body [u8], A2aError> {
    let refuse = |message: &str| Err(A2aError::new(ErrorKind::InvalidRequest, message));
    let is_grpc = |value: &HeaderValue| {
        matches!(
            value.to_str().map(|value| value.split(';').next()),
            Ok(Some("application/grpc" | "application/grpc+proto"))
        )
    };
    if !headers.get(header::CONTENT_TYPE).is_some_and(is_grpc) {
        let message = "a request must have the content type `application/grpc`";
        return Err(A2aError::new(ErrorKind::ContentTypeNotSupported, message));
    }
    let Some((prefix, message)) = body.split_at_checked(PREFIX_BYTES) else {
        return refuse("the request has no message");
    };
    if prefix[0] != 0 {
        let message = "compressed messages are not supported";
        return Err(A2aError::new(ErrorKind::MethodNotFound, message));
    }
    let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
    if usize::try_from(length).is_ok_and(|length| length == message.len()) {
        Ok(message)
    } else {
        refuse("the request must have exactly one message")
    }
}

/// One message as a frame.
pub(super) fn write(message: &impl prost::Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    // Answers are far smaller than 4 GiB: all that they are made of is bounded.
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // A growing buffer has room for every message.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

/// An answer with one message.
pub(super) fn respond_once(frame: Bytes) -> Response {
    respond(stream::iter([frame]))
}

/// An answer with these frames. One that ends before its task does, since the server stops, says so in its status.
pub(crate) fn respond(frames: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let data = frames.map(|frame| if frame == sse::RECONNECT { Err(unavailable()) } else { Ok(frame) });
    let parts = data.chain(stream::iter([Err(GrpcStatus::ok())])).scan(false, |is_over, part| {
        let frame = match part {
            _ if *is_over => None,
            Ok(frame) => Some(Frame::data(frame)),
            Err(status) => {
                *is_over = true;
                let mut trailers = HeaderMap::new();
                status.add_to(&mut trailers);
                Some(Frame::trailers(trailers))
            }
        };
        std::future::ready(frame.map(Ok::<_, std::convert::Infallible>))
    });
    let mut response = Response::new(Body::new(StreamBody::new(parts)));
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

fn unavailable() -> GrpcStatus {
    let message = "the server stops; subscribe to the task again".to_owned();
    GrpcStatus { code: "UNAVAILABLE", message, info: None, violations: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content_type: &str, body: &[u8], expect: Result<&[u8], ErrorKind>) {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, content_type.parse().unwrap())]);
        assert_eq!(read(&headers, body).map_err(|error| error.kind()), expect, "{content_type} {body:?}");
    }

    #[test]
    fn a_request_is_one_uncompressed_message() {
        check("application/grpc", &[0, 0, 0, 0, 2, 7, 8], Ok(&[7, 8]));
        check("application/grpc+proto", &[0, 0, 0, 0, 0], Ok(&[]));
        check("application/grpc; charset=utf-8", &[0, 0, 0, 0, 0], Ok(&[]));
        check("application/json", &[0, 0, 0, 0, 0], Err(ErrorKind::ContentTypeNotSupported));
        check("application/grpc+json", &[0, 0, 0, 0, 0], Err(ErrorKind::ContentTypeNotSupported));
        check("application/grpc", &[1, 0, 0, 0, 2, 7, 8], Err(ErrorKind::MethodNotFound));
        for bad in [&[][..], &[0, 0, 0], &[0, 0, 0, 0, 2, 7], &[0, 0, 0, 0, 1, 7, 8], &[0, 255, 255, 255, 255, 7]] {
            check("application/grpc", bad, Err(ErrorKind::InvalidRequest));
        }
    }
}
