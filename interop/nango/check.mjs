// Nango's official client against `bosun nango serve`, with the state of examples/nango/state.json.
import assert from 'node:assert/strict';
import { Nango } from '@nangohq/node';

const [, , host] = process.argv;
const key = '6f1d3a52-8c04-4e0b-9d53-2a7b1c9e4f10';
const nango = new Nango({ host, secretKey: key });
const mail = { providerConfigKey: 'google-mail-ynxw', connectionId: 'my-connection' };

/** The status and the error code of a request that fails. */
async function refused(request) {
  try {
    await request;
  } catch (error) {
    return [error.response?.status, error.response?.data?.error?.code];
  }
  assert.fail('the request succeeded');
}

const all = await nango.listRecords({ ...mail, model: 'GmailThread' });
assert.deepEqual(all.records.map((record) => record.id), ['t1', 't2', 't3', 't4'], 'oldest first, with the deleted one');
assert.equal(all.records[3].subject, undefined, 'a deleted record is a stub');
assert.equal(all.records[3]._nango_metadata.last_action, 'DELETED');
assert.equal(all.next_cursor, null);

const kept = await nango.listRecords({ ...mail, model: 'GmailThread', filter: 'added,updated', limit: 2 });
assert.deepEqual(kept.records.map((record) => record.id), ['t1', 't2']);
const rest = await nango.listRecords({ ...mail, model: 'GmailThread', filter: 'added,updated', cursor: kept.next_cursor });
assert.deepEqual(rest.records.map((record) => record.id), ['t3']);
const byId = await nango.listRecords({ ...mail, model: 'GmailThread', ids: ['t2'] });
assert.deepEqual(byId.records.map((record) => record.id), ['t2']);
assert.deepEqual((await nango.listRecords({ ...mail, model: 'Unknown' })).records, [], 'an unknown model is an empty list');
assert.deepEqual(await refused(nango.listRecords({ ...mail, model: 'lower' })), [400, 'invalid_query_params']);
assert.deepEqual(await refused(nango.listRecords({ ...mail, model: 'GmailThread', filter: '{"sender":"x"}' })), [400, 'invalid_query_params']);
assert.deepEqual(await refused(nango.listRecords({ ...mail, model: 'GmailThread', cursor: 'bad' })), [500, 'server_error']);
assert.deepEqual(await refused(nango.listRecords({ ...mail, connectionId: 'other', model: 'GmailThread' })), [400, 'unknown_connection']);

const email = { to: 'ada@example.com', subject: 'Hello', body: 'Hi' };
assert.deepEqual(await nango.triggerAction('google-mail-ynxw', 'my-connection', 'send-email', email), { id: 'msg-1', threadId: 'thread-9' });
assert.deepEqual(await refused(nango.triggerAction('google-mail-ynxw', 'my-connection', 'send-mail', email)), [404, 'not_found']);
const begun = await nango.triggerActionAsync('google-mail-ynxw', 'my-connection', 'send-email', email);
assert.match(begun.id, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
assert.deepEqual(await refused(nango.getAsyncActionResult(begun)), [404, 'not_found'], 'it still runs');
for (;;) {
  try {
    assert.deepEqual(await nango.getAsyncActionResult({ id: begun.id }), { id: 'msg-1', threadId: 'thread-9' });
    break;
  } catch (error) {
    assert.equal(error.response?.status, 404);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const { connections } = await nango.listConnections({ tags: { end_user_id: 'alice' }, integrationId: 'google-mail-ynxw' });
assert.deepEqual(connections.map((connection) => connection.connection_id), ['alices-mail']);
assert.equal(connections[0].tags.end_user_id, 'alice');
const { syncs } = await nango.syncStatus('google-mail-ynxw', '*', 'my-connection');
assert.equal(syncs[0].recordCount.GmailThread, 3);
assert.deepEqual((await nango.listIntegrations()).configs.map((one) => one.unique_key), ['google-mail-ynxw', 'salesforce-ybzg', 'notion']);
const scripts = await nango.getScriptsConfig();
assert.deepEqual(scripts[0].actions.map((action) => action.name), ['send-email']);
const session = await nango.createConnectSession({ end_user: { id: 'bob' }, allowed_integrations: ['notion'] });
assert.match(session.data.connect_link, /session_token=nango_connect_session_/);

for (const [secretKey, code] of [['11111111-2222-4333-8444-555555555555', 'unknown_account'], ['short', 'invalid_secret_key_format']]) {
  const other = new Nango({ host, secretKey });
  assert.deepEqual(await refused(other.listConnections({})), [401, code]);
}
console.log('nango: @nangohq/node reads the stand-in as the real API');
