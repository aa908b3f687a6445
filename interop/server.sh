# For scripts that need a server: builds it, starts it with the example agents, and stops it when the script ends. Sets `work`,
# a directory that goes away then, and `address`.
cargo build --quiet --locked -p bosun
work="$(mktemp -d)"
"${CARGO_TARGET_DIR:-target}/debug/bosun" serve --listen 127.0.0.1:0 --data "$work/data" --manifests examples/agents \
    >"$work/out" 2>"$work/log" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
until grep -qs '^listening on' "$work/out"; do
    kill -0 "$server" || { cat "$work/log"; exit 1; }
    sleep 0.1
done
address="$(sed -n 's/^listening on \(http[^ ]*\) .*/\1/p' "$work/out")"
