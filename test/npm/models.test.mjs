import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { clients, connect, failureOf, mini, polly, serveParley } from './parley.mjs';

const server = serveParley();

for (const [name, Client] of clients) {
  describe(`models, ${name}`, () => {
    test('the list has the built-in models, the default first', async () => {
      const list = [];
      for await (const model of connect(Client, server).models.list()) list.push(model);
      assert.deepEqual(list.map((m) => m.id), [polly, mini]);
      for (const model of list) {
        assert.equal(model.object, 'model');
        assert.equal(typeof model.owned_by, 'string');
        assert.ok(Number.isInteger(model.created) && model.created > 1_600_000_000);
        assert.ok(Number.isInteger(model.max_model_len) && model.max_model_len >= 1024);
      }
    });

    test('one model', async () => {
      const client = connect(Client, server);
      const model = await client.models.retrieve(mini);
      assert.equal(model.id, mini);
      assert.match(model._request_id, /^req_/);
    });

    test('a model that is not there, also with a slash in its name', async () => {
      const client = connect(Client, server);
      for (const id of ['nobody', 'some/model:tag']) {
        const err = await failureOf(client.models.retrieve(id));
        assert.ok(err instanceof Client.NotFoundError);
        assert.equal(err.code, 'model_not_found');
        assert.equal(err.param, 'model');
        assert.ok(err.message.includes(id), err.message);
      }
    });
  });
}
